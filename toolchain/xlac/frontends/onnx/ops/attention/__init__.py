"""Attention in ONNX's forms."""
