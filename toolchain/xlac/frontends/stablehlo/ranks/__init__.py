"""Computations of the ranks of a mesh: Shardy's manual computations, and collectives in them."""
