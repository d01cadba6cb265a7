"""Lowerings for GPUs; `codegen/lower.py` has the table of kinds."""
