"""Convolutions that are not matrix products: depthwise, and Winograd's."""
