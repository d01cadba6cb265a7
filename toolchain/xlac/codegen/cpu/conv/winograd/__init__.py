"""Winograd convolution: transforms, the products between them, and an accuracy guard."""
