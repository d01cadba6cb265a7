"""Schedules of kernels for a GPU."""
