"""What other frameworks' programs call: torch.compile, from_torch, from_jax, jit, ONNX's backend
interface.
"""
