"""Compiles PyTorch models for PyTorch programs: `xlac.from_torch`, `xlac.torch_step`, and the
backend of `torch.compile`.
"""
