"""Importers of models besides the spec language: ONNX, StableHLO, PyTorch, JAX and traced Python.
Each produces the same graph IR.
"""
