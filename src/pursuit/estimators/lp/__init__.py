"""LP machines: an l1 penalty on the coefficients, solved by growing the basis."""
