"""Attention on GPUs: flash attention for many queries, split-KV decoding for few."""
