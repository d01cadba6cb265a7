"""The data of learned tensors: read from files in several formats, or initialized from a seed."""
