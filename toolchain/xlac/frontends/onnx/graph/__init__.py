"""Names, values and bodies of an ONNX graph while it is imported."""
