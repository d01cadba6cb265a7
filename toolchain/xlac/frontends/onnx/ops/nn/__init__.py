"""Layers of ONNX."""
