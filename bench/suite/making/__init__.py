"""What makes rows: models from configurations, quantized models, training steps."""
