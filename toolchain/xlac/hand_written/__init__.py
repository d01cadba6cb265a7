"""Hand-written kernels of a model: permission to compile them, and comparison with their reference
graphs.
"""
