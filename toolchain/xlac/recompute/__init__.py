"""Rematerialization: recomputes and reorders groups so that a program fits a memory limit."""
