"""PyTorch models in PyTorch programs: `xlac.from_torch`, and the backend of `torch.compile`."""
