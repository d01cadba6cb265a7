"""Arithmetic, products, reductions, signals and random numbers."""
