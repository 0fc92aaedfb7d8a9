"""Sparse kernel components of one view, and of two."""
