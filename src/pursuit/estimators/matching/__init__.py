"""Kernel matching pursuit, its size chosen by a bound."""
