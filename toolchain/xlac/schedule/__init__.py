"""Fused groups to scheduled kernels, parameterised by the facts of a `Target` and nothing else."""
