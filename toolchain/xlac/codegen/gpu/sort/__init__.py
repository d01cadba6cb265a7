"""Sorting on GPUs."""
