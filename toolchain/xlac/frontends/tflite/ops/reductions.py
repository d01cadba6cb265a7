"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.quantization import alike, held
from xlac.frontends.tflite.registry import operator
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
        if same and mnemonic in ("mean", "reduce_max", "reduce_min") and _whole(call[0]):
            return _integers(call, mnemonic, axes, keep)
        x = call.real(0)
        if not axes:
            return call.give(x)
        return call.give(build.apply1(mnemonic, x, axis=axes, keepdims=keep))


def _whole(x: Node) -> bool:
    return x.type.dtype.is_integer and x.type.dtype.bits <= 16


def _integers(call: TFLiteCall, mnemonic: str, axes: Sequence[int], keep: bool) -> Node:
    """A reduction of integers in their scale: means, which include the zero point, round halves
    away from zero.
    """
    x = call[0]
    if not axes or mnemonic != "mean":
        return build.apply1(mnemonic, x, axis=axes, keepdims=keep) if axes else x
    total = build.reduce(build.cast(x, DType.I32), "add", axes, keep)
    count = prod(x.shape[axis] for axis in axes)
    if not isinstance(count, int):
        call.fail(f"the mean of integers needs a known number of them, got {x.type}")
    mean = build.div(build.cast(total, DType.F32), float(max(1, count)))
    return held(build.apply1("round_half_away", mean), call.out())


def _axes(call: TFLiteCall) -> list[int]:
    rank = call[0].type.rank
    axes = call.ints(1)
    if any(not -rank <= axis < max(1, rank) for axis in axes):
        call.fail(f"axes {axes} do not fit {call[0].type}")
    return [axis % rank for axis in axes] if rank else []


for _name, _mnemonic in _KINDS.items():
    _reduction(_name, _mnemonic)
