"""Runs kernels and programs in NumPy: what they mean, and what backends are compared with."""
