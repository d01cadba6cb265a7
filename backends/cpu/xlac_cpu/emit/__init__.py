"""Kernels and programs as LLVM text."""
