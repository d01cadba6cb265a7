"""Layers: convolution, pooling, attention, normalization, linear, recurrent, losses."""
