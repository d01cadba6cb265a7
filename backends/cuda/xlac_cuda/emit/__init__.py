"""Kernels and programs as CUDA C++."""
