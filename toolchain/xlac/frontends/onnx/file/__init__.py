"""What an .onnx file holds, as plain data."""
