"""ATen operations on numbers: pointwise, reductions, products."""
