"""Integrations with other frameworks: torch.compile, from_torch, from_jax, jit, and ONNX's backend
interface.
"""
