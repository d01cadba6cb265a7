"""Training: the graph of a step, programs that share what they learn, and the loop around them."""
