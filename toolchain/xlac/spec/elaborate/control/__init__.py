"""Structured control in specs: scan, while and cond, their bodies, and the values that loops
carry.
"""
