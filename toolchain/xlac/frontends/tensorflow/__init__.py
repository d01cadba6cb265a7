"""Functions of TensorFlow, which it lowers to StableHLO."""
