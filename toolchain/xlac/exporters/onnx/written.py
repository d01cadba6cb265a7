"""Which operations the exporter to ONNX writes and which it refuses; can be read without `onnx`."""

from __future__ import annotations

WRITTEN = frozenset(
    """
    abs acos acosh add and asin asinh atan atan2 atanh barrier batch_norm bitcast broadcast call
    cast ceil celu compact compare concat cond conv conv1d conv2d conv3d cos cosh cumulative
    dim_size div dot dyn_slice dyn_update elu erf exp expand expm1 flatten floor gather gelu
    gelu_exact hardsigmoid hardswish identity iota isnan layer_norm leaky_relu linear log log1p
    log_softmax matmul max mean min mish mul neg not or pad pow prod reciprocal reduce
    reduce_max reduce_min relu rem reshape round scan scatter select shl shr sigmoid sin sinh
    slice softmax softplus sort split sqrt squeeze sub sum tan tanh transpose unsqueeze where
    while window xor
    """.split()
)
"""Operations with a rule, declared by `@rule` in a module of this package: a rule for any other is
an error when the module is imported.
"""

REFUSED = {
    "custom_call": "only who wrote the function knows what it does",
    "rng_bits": "ONNX draws random numbers by no rule that is said",
}
"""Operations that cannot be written, each with the reason. All others have a rule or an
expansion.
"""
