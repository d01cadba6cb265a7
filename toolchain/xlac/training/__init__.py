"""Training: the graph of a step, programs that share the training state, and the training loop."""
