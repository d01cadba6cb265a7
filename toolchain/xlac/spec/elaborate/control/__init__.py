"""Structured control in specs: scan, while and cond, their bodies, and carried values."""
