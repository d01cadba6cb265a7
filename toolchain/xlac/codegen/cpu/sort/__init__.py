"""Sorting on a CPU: whole lines, or their first elements."""
