"""Registered operations: a spec's operations, called by name from Python, PyTorch, JAX and imported
models.
"""
