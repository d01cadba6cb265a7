"""The operations that the TensorFlow Lite importer can make."""

from __future__ import annotations

PRODUCED = frozenset(
    """
    abs add all and any argmax argmin atan2 bitcast broadcast cast ceil compare concat cond
    const conv cos cumsum div dot dyn_update elu exp fft flip floor floor_divide
    gather gather_nd gelu iota
    leaky_relu log log_softmax logical_not matmul max mean min mod mul neg or pad param pick pow
    prod reduce reduce_max reduce_min reshape resize rfft round round_half_away rsqrt scan
    scatter_nd select shl shr sigmoid sign sin slice softmax sqrt square squeeze stack sub sum
    take_along_axis tanh tile topk transpose unsqueeze while window xor
    """.split()
)
