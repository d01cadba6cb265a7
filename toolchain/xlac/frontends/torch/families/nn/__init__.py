"""ATen operations of networks: activations, normalization, convolution, pooling, attention."""
