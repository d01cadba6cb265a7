"""Attention on CPUs, and its derivative: blocks of queries against tiles of keys."""
