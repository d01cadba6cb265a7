"""The operations that the Keras importer makes, of all that there are."""

from __future__ import annotations

PRODUCED = frozenset(
    """
    abs adaptive_avg_pool1d adaptive_avg_pool2d add all and any argmax attention batch_norm
    broadcast cast celu clip compare concat const conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d div dot dropout einsum elu embedding equal exp flip gelu
    greater greater_equal group_norm hardsigmoid hardswish iota layer_norm leaky_relu less
    less_equal linear log_softmax logical_and logical_not logical_or logical_xor logsumexp max
    mean min mish mul neg normalize not_equal ones_like or pad_mode param pick pow prelu reduce
    reduce_max reduce_min relu relu6 repeat reshape resize rms_norm rsqrt scan select selu
    sigmoid silu slice softmax softplus softsign split sqrt squeeze stack std sub sum tanh
    transpose unsqueeze var window zeros_like
    """.split()
)
