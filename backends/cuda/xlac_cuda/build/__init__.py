"""CUDA's compilers, and their results."""
