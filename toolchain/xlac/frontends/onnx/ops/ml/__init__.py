"""ONNX-ML: features, n-grams and trees."""
