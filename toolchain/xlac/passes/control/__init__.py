"""Passes over branches, loops and calls: what crosses the borders of their bodies."""
