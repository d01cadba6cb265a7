"""CUDA's compilers, and what they make."""
