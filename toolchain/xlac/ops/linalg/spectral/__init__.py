"""Eigenvalues and singular values by divide and conquer."""
