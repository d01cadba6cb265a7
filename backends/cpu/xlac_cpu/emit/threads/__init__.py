"""Parallel loops: their chunks, and the thread pool that claims them, as LLVM text."""
