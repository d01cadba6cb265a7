"""The operations that the ONNX importer can make."""

from __future__ import annotations

PRODUCED = frozenset(
    """
    abs acos acosh add and argmax argmin asin asinh atan atanh attention avg_pool1d
    avg_pool2d avg_pool3d batch_norm bitcast bounded_while broadcast cast ceil celu compact
    compare concat cond const conv conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cos cosh cumprod cumsum decode_float det dim_size div dot dyn_update
    einsum elu encode_float equal erf exp fft flip floor gather gelu global_avg_pool
    global_max_pool greater greater_equal grid_sample group_norm hardsigmoid hardswish
    instance_norm iota irfft isfinite isnan layer_norm leaky_relu less less_equal
    local_response_norm log log_softmax logical_and logical_not logical_or logical_xor
    logsumexp matmul max max_pool1d max_pool2d max_pool3d mean min mish mod mul neg norm not
    or pad param pick pow reciprocal reduce relu rem repeat reshape resize rfft rms_norm
    rng_bits round round_half_away rsqrt scan scatter scatter_elements scatter_nd select
    selu shl shr sigmoid sign silu sin sinh slice softmax softplus softsign sort sqrt square
    squeeze stack sub take_along_axis tan tanh tile topk transpose tril triu unsqueeze while
    window xor
    """.split()
)
