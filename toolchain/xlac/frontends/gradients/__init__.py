"""Derivatives of traced Python functions, and gradients that they declare themselves."""
