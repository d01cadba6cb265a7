"""Ways out: a model as a spec, as ONNX, as StableHLO."""
