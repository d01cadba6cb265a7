"""Splits loops where comparisons of their counters change: the seams of concatenations and pads."""
