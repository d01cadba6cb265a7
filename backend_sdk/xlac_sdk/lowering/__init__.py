"""Rewrites of kernels for targets: expansion of missing primitives, guards, stop checks."""
