"""Operations of a spec that are called by name: from Python, PyTorch, JAX and imported models."""
