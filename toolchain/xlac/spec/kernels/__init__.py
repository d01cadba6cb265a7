"""Hand-written kernels of a spec's operations: their files, and what is known of them."""
