"""Winograd's convolution: transforms, the products between them, and a guard of their accuracy."""
