"""The operations that the PyTorch importer can make."""

from __future__ import annotations

PRODUCED = frozenset(
    """
    abs acos acosh add and argmax argmin argsort asin asinh atan atan2 atanh batch_norm
    bessel_i1e bitcast broadcast cast ceil cholesky compare concat cond const conv cos cosh
    cumprod cumsum custom_gradient det digamma dim_size div dot dyn_slice dyn_update eigh erf
    erf_inv erfc exp exp2 expm expm1 eye fft flip floor floor_divide gather gather_nd gelu
    grid_sample group_norm hardsigmoid hardswish householder_product householder_qr inv iota
    irfft isfinite isinf isnan layer_norm lgamma log log1p log2 log_softmax logsumexp lu
    lu_solve matmul max mean min mish mod mul neg next_after norm not or pad pad_mode param pick
    pow qr reciprocal reduce relu rem reshape rfft rng_bits round rsqrt scan scatter
    scatter_elements scatter_nd select select_and_scatter shl shr sigmoid sign silu sin sinh
    slice slogdet softmax solve sort sqrt stop_gradient sub svd take_along_axis tan tanh
    transpose triangular_solve tril triu trunc unsqueeze while window xor zeta
    """.split()
)
