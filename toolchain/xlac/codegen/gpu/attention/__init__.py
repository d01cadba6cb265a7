"""Attention on GPUs: flash attention for many queries, split keys for few."""
