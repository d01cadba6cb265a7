"""Reads .onnx files: protobuf messages, attributes and tensor data."""
