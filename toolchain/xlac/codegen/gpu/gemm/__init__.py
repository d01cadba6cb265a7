"""Matrix products and convolutions on GPUs."""
