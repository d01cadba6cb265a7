"""Structured control in specs: scan, while and cond, their bodies, and what steps hand on."""
