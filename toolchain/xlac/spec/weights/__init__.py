"""The data of learned tensors: files of every kind, and drawing from a seed."""
