"""Linear algebra: decompositions of matrices, and what is computed by them."""
