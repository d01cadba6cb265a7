"""Checked programs: nodes that find what a value should not be."""
