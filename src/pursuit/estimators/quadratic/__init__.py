"""Sparse greedy minimisation of a quadratic function: columns of H, lower bounds, the entry."""
