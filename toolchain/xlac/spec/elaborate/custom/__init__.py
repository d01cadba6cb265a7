"""Operations that a spec declares: their reference graphs, kernels and gradients."""
