"""Lowers fused groups to kernels: `lower` is the dispatcher."""
