"""ATen operations of neural networks: activations, normalization, convolution, pooling,
attention.
"""
