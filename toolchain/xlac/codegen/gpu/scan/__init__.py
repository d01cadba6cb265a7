"""Cumulative operations on GPUs, and compaction by a running count."""
