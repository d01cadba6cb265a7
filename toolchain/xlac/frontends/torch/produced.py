"""The operations that the PyTorch importer makes, of all that there are."""

from __future__ import annotations

PRODUCED = frozenset(
    """
    abs acos acosh add and argmax argmin asin asinh atan atan2 atanh bessel_i1e bitcast
    broadcast cast ceil compare concat cond const conv cos cosh cumprod cumsum digamma dim_size
    div dot erf erf_inv erfc exp exp2 expm1 flip floor floor_divide gather gather_nd gelu
    grid_sample hardsigmoid hardswish iota isfinite isinf isnan layer_norm lgamma log log1p log2
    log_softmax logsumexp matmul max mean min mish mod mul neg next_after norm not or pad
    pad_mode param pick pow reciprocal reduce relu rem reshape rng_bits round rsqrt scan scatter
    scatter_elements scatter_nd select select_and_scatter shl shr sigmoid sign silu sin sinh
    slice softmax sort sqrt stop_gradient sub take_along_axis tan tanh transpose
    triangular_solve tril triu trunc unsqueeze while window xor zeta
    """.split()
)
