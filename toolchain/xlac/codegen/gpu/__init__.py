"""Lowerings for GPUs: `lower` is the table of kinds."""
