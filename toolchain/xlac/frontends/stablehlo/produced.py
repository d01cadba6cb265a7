"""The operations that the StableHLO importer can make."""

from __future__ import annotations

PRODUCED = frozenset(
    """
    abs acos acosh add all_gather all_reduce all_to_all and argmax asin asinh atan atan2
    atanh axis_index barrier bessel_i1e bitcast broadcast cast cbrt ceil cholesky clz
    collective_broadcast collective_permute compare concat cond const conv cos cosh
    cumulative custom_call decode_float digamma dim_size div dot dyn_slice dyn_update eigh
    einsum encode_float erf erf_inv erfc exp expm1 fft flip floor gather householder_product
    householder_qr iota irfft isfinite isinf lgamma log log1p lu manual_computation max min
    mul neg next_after not or pad param pick polygamma popcnt pow reduce reduce_precision
    reduce_scatter rem reshape rfft rng_bits round round_half_away rsqrt scan scatter select
    select_and_scatter shard shl shr sigmoid sign sin sinh slice sort sqrt square sub svd
    take_along_axis tan tanh transpose triangular_solve tril triu varying while window xor
    zeta
    """.split()
)
