"""Fits in the span of a chosen basis: choose, certify, truncate, grow."""
