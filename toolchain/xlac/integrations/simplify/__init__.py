"""Simplifies ONNX models: `model.simplify` is the entry point."""
