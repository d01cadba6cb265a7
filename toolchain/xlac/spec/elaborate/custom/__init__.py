"""Operations that a spec or its directory defines: their meanings, kernels and gradients."""
