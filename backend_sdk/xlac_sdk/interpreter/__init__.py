"""Runs kernels and programs in NumPy: the reference that backends are compared with."""
