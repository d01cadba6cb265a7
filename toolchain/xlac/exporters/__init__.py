"""Exporters: a model as a spec, as ONNX, as StableHLO."""
