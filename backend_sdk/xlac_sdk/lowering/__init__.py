"""Kernels rewritten into what a target has."""
