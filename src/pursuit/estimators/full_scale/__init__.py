"""Gaussian processes of a greedy basis for what is smooth and near rows for what is not."""
