"""Products of matrices and convolutions on GPUs."""
