"""Hand-written kernels of a spec's operations: their files and descriptions."""
