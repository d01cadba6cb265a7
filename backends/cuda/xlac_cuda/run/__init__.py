"""Loaded programs on a GPU: plans, graphs and calls."""
