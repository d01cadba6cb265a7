"""Collectives between GPUs, by NCCL."""
