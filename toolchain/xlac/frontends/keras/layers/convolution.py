"""Convolutions: plain, depthwise, separable and transposed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.padding import same
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build

Pads = list[tuple[int, int]]


def filters_first(kernel: Array) -> Array:
    """(…, inputs, filters) as (filters, inputs, …)."""
    rank = kernel.ndim - 2
    return np.transpose(kernel, (rank + 1, rank, *range(rank)))


def _depthwise_filters(kernel: Array) -> Array:
    """(…, inputs, multiplier) as (inputs * multiplier, 1, …)."""
    rank = kernel.ndim - 2
    moved = np.transpose(kernel, (rank, rank + 1, *range(rank)))
    return moved.reshape(-1, 1, *kernel.shape[:rank])


def _channels(call: LayerCall, x: Node, rank: int) -> int:
    """The number of channels of x."""
    if x.type.rank != rank + 2:
        call.fail(f"x has {rank + 2} axes, got {x.type}")
    channels = x.shape[-1 if call.channels_last else 1]
    if not isinstance(channels, int) or channels < 1:
        call.fail(f"the number of channels of {x.type} must be known")
    return channels


def _pads(call: LayerCall, x: Node, kernel: Sequence[int], strides: Sequence[int]) -> Pads:
    rank = len(kernel)
    mode = call.choice("padding", ("valid", "same", "causal"), "valid")
    dilation = call.integers("dilation_rate", rank, 1)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = x.shape[1:-1] if call.channels_last else x.shape[2:]
    if mode == "valid":
        return [(0, 0)] * rank
    if mode == "same":
        return same(sizes, spans, strides)
    if rank != 1:
        call.fail("only time has causal padding")
    return [(spans[0] - 1, 0)]


def convolved(
    call: LayerCall, x: Node, learned: Sequence[Node], filters: int, groups: int, pointwise: bool
) -> Node:
    """x convolved with a kernel and a bias, if it is among what is learned."""
    rank = x.type.rank - 2
    kernel = tuple(n for n in learned[0].shape[2:] if isinstance(n, int))
    strides = (1,) * rank if pointwise else call.integers("strides", rank, 1)
    dilation = (1,) * rank if pointwise else call.integers("dilation_rate", rank, 1)
    return build.apply1(
        f"conv{rank}d",
        x,
        *learned,
        filters=filters,
        kernel=kernel,
        stride=strides,
        pad=[(0, 0)] * rank if pointwise else _pads(call, x, kernel, strides),
        groups=groups,
        dilation=dilation,
        bias=len(learned) > 1,
        channels_last=call.channels_last,
    )


def _bias(call: LayerCall, filters: int) -> list[Node]:
    return [call.weight("bias", (filters,))] if call.flag("use_bias", True) else []


def _plain(call: LayerCall, rank: int) -> Node:
    x, filters, groups = call.floats(call.x), call.integer("filters"), call.integer("groups", 1)
    channels = _channels(call, x, rank)
    if channels % groups or filters % groups:
        call.fail(f"{channels} channels and {filters} filters do not divide into {groups} groups")
    if call.get("lora_rank") is not None or call.get("quantization_mode") is not None:
        call.unsupported("low-rank or quantized kernels are not supported")
    size = call.integers("kernel_size", rank)
    kernel = call.weight("kernel", (*size, channels // groups, filters), filters_first)
    learned = [kernel, *_bias(call, filters)]
    return call.activated(convolved(call, x, learned, filters, groups, False))


def _depthwise(call: LayerCall, rank: int) -> Node:
    x, many = call.floats(call.x), call.integer("depth_multiplier", 1)
    channels = _channels(call, x, rank)
    shape = (*call.integers("kernel_size", rank), channels, many)
    # `depthwise_kernel` in files of Keras 2
    name = "kernel" if call.store.array(0, "kernel") is not None else "depthwise_kernel"
    learned = [call.weight(name, shape, _depthwise_filters), *_bias(call, channels * many)]
    return call.activated(convolved(call, x, learned, channels * many, channels, False))


def _separable(call: LayerCall, rank: int) -> Node:
    x, many = call.floats(call.x), call.integer("depth_multiplier", 1)
    channels, filters = _channels(call, x, rank), call.integer("filters")
    size = call.integers("kernel_size", rank)
    depth = call.weight("depthwise_kernel", (*size, channels, many), _depthwise_filters)
    point = call.weight("pointwise_kernel", (*(1,) * rank, channels * many, filters), filters_first)
    middle = convolved(call, x, [depth], channels * many, channels, False)
    learned = [point, *_bias(call, filters)]
    return call.activated(convolved(call, middle, learned, filters, 1, True))


def _transposed(call: LayerCall, rank: int) -> Node:
    x, filters = call.floats(call.x), call.integer("filters")
    channels = _channels(call, x, rank)
    kernel, strides = call.integers("kernel_size", rank), call.integers("strides", rank, 1)
    dilation = call.integers("dilation_rate", rank, 1)
    mode = call.choice("padding", ("valid", "same"), "valid")
    given = call.get("output_padding")
    extra = call.integers("output_padding", rank, least=0) if given is not None else None
    pads, more = [], []
    for axis, (k, s, d) in enumerate(zip(kernel, strides, dilation, strict=True)):
        span = (k - 1) * d + 1
        # what the result has more than (size - 1) * stride
        if extra is None:
            wanted = s if mode == "same" else max(span, s)
        else:
            wanted = span + extra[axis] - (2 * (span // 2) if mode == "same" else 0)
        total = max(span - wanted, 0) if mode == "same" else 0
        low = total // 2
        pads.append((low, max(span - wanted - low, 0)))
        more.append(max(wanted - span + low, 0))
    weight = call.weight("kernel", (*kernel, filters, channels), filters_first)
    learned = [weight, *_bias(call, filters)]
    y = build.apply1(
        f"conv_transpose{rank}d",
        x,
        *learned,
        filters=filters,
        kernel=kernel,
        stride=strides,
        pad=pads,
        dilation=dilation,
        bias=len(learned) > 1,
        channels_last=call.channels_last,
        output_padding=more,
    )
    return call.activated(y)


for _rank in (1, 2, 3):

    @layer(f"Conv{_rank}D", f"Convolution{_rank}D")
    def plain(call: LayerCall, rank: int = _rank) -> Node:
        """A convolution of x (batch, …, channels) with a kernel (…, channels / groups, filters)."""
        return _plain(call, rank)

    @layer(f"Conv{_rank}DTranspose", f"Convolution{_rank}DTranspose")
    def transposed(call: LayerCall, rank: int = _rank) -> Node:
        """The gradient of a convolution; its kernel is (…, filters, channels)."""
        return _transposed(call, rank)


for _rank in (1, 2):

    @layer(f"DepthwiseConv{_rank}D")
    def depthwise(call: LayerCall, rank: int = _rank) -> Node:
        """Each channel with kernels of its own: (…, channels, multiplier)."""
        return _depthwise(call, rank)

    @layer(f"SeparableConv{_rank}D", f"SeparableConvolution{_rank}D")
    def separable(call: LayerCall, rank: int = _rank) -> Node:
        """Each channel with kernels of its own, then all channels at each point."""
        return _separable(call, rank)
