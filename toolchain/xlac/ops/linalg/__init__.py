"""Linear algebra: decompositions of matrices, and solvers based on them."""
