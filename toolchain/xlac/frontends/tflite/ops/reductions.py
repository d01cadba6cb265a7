"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.multiplier import Multiplier, multiplier
from xlac.frontends.tflite.quantization import alike, scaled
from xlac.frontends.tflite.registry import operator
from xlac.frontends.tflite.stored_integers import reduced_product
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

_KINDS = {
    "SUM": "sum",
    "MEAN": "mean",
    "REDUCE_PROD": "prod",
    "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min",
    "REDUCE_ANY": "any",
    "REDUCE_ALL": "all",
}


def _reduction(name: str, mnemonic: str) -> None:
    @operator(name, "ReducerOptions")
    def reduction(call: TFLiteCall) -> Node:
        axes = build.axes_of(sorted(set(_axes(call))), call[0].type.rank)
        keep = call.option("keep_dims")
        same = alike(call.info(0).quantization, call.out().quantization)
        if same and mnemonic in ("reduce_max", "reduce_min") and _whole(call[0]):
            return build.apply1(mnemonic, call[0], axis=axes, keepdims=keep) if axes else call[0]
        if axes and mnemonic in ("mean", "sum"):
            total = _total(call, axes, keep, mnemonic == "mean")
            if total is not None:
                return total
        if axes and mnemonic == "prod":
            product = reduced_product(call, axes, keep)
            if product is not None:
                return product
        x = call.real(0)
        if not axes:
            return call.give(x)
        return call.give(build.apply1(mnemonic, x, axis=axes, keepdims=keep))


def _whole(x: Node) -> bool:
    return x.type.dtype.is_integer and x.type.dtype.bits <= 16


def _total(call: TFLiteCall, axes: Sequence[int], keep: bool, mean: bool) -> Node | None:
    """The sum or mean of quantized integers, to the bit of the reference kernels; None where they
    have none.
    """
    x, before, after = call[0], call.info(0).quantization, call.out().quantization
    if before is None or after is None or not before.single or not after.single or not _whole(x):
        return None
    if call.out().dtype is not x.type.dtype:
        return None
    count = prod(x.shape[axis] for axis in axes)
    if not isinstance(count, int):
        call.fail(f"sums of integers need a known number of them, got {x.type}")
    total = build.reduce(build.cast(x, DType.I32), "add", axes, keep)
    zero = int(before.zeros[0]) * count
    if zero:
        total = build.sub(total, zero)
    by = multiplier(before.scales[0].astype(np.float64) / after.scales[0])
    if mean and count:
        # the kernel divides the mantissa by the count, which it first shifts by the bits of that
        bits = min(count.bit_length() - 1, 32, 31 + int(by.exponent))
        by = Multiplier((by.mantissa << bits) // count, by.exponent - bits)
    return scaled(total, by, call.out())


def _axes(call: TFLiteCall) -> list[int]:
    rank = call[0].type.rank
    axes = call.ints(1)
    if any(not -rank <= axis < max(1, rank) for axis in axes):
        call.fail(f"axes {axes} do not fit {call[0].type}")
    return [axis % rank for axis in axes] if rank else []


for _name, _mnemonic in _KINDS.items():
    _reduction(_name, _mnemonic)
