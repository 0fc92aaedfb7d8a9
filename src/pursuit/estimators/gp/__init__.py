"""Gaussian processes: sparse by greedy choice, exact by preconditioned conjugate gradients."""
