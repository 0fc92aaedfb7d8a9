"""Greedy approximation over a convex hull: l1 regression, boosting, mixtures."""
