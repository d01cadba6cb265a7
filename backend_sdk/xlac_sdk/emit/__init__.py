"""Kernels as text: the C family with its dialects, and Python."""
