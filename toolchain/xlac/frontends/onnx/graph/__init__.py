"""Names, values and bodies of an ONNX graph during import."""
