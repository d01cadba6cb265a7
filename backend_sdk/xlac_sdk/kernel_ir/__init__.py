"""Kernel IR: its grammar, primitives and semantics; building, verifying and printing kernels."""
