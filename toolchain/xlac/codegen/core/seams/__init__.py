"""Splits loops where comparisons with their counters change: at the seams of concatenations and
pads.
"""
