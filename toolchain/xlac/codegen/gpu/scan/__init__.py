"""Running combinations on GPUs, and what is built on them."""
