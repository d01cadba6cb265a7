"""Rules that `verify.py` checks kernels against."""
