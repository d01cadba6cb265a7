"""Checked programs: adds nodes that detect faulty values."""
