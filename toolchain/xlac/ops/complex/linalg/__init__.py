"""LAPACK's factorizations of real and of complex matrices, from operations on their parts."""
