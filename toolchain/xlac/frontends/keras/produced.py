"""The operations that the Keras importer makes, of all that there are."""

from __future__ import annotations

PRODUCED = frozenset(
    """
    abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d add all and any argmax argmin
    argsort asin asinh atan atan2 atanh attention batch_norm broadcast cast ceil celu clip
    compare concat const conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cos cosh cumprod cumsum cumulative div dot dropout einsum elu embedding
    equal erf exp expm1 flip floor floor_divide gather gelu greater greater_equal
    group_norm hardsigmoid hardswish identity iota isfinite isinf isnan layer_norm
    leaky_relu less less_equal linear log log1p log2 log_softmax logical_and logical_not
    logical_or logical_xor logsumexp matmul max mean min mish mod mul neg normalize not
    not_equal one_hot ones_like or pad pad_mode param pick pow prelu prod reciprocal reduce
    reduce_max reduce_min relu relu6 rem repeat reshape resize rfft rms_norm roll round
    rsqrt scan select selu sigmoid sign silu sin sinh slice softmax softplus softsign sort
    split sqrt square squared_difference squeeze stack std stop_gradient sub sum swapaxes
    take take_along_axis tan tanh tile topk transpose tril triu unsqueeze var window
    zeros_like
    """.split()
)
