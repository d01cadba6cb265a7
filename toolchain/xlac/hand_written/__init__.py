"""Hand-written kernels of a model: whether they may be compiled, and whether they are right."""
