"""Generalised linear models in a span of kernel functions."""
