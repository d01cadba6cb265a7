"""Operators of quantized tensors whose reference kernels compute on integers as they are stored, or
bring them to a scale of their own, to the bits of those kernels. Each function gives None where the
kernels have no such form; then real numbers are computed.

Source: neg.cc, maximum_minimum.cc, floor_div.cc, floor_mod.cc, comparisons.cc, reduce.cc (kernels).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.file.tensors import PACKED
from xlac.frontends.tflite.multiplier import Multiplier, multiplied, multiplier
from xlac.frontends.tflite.quantization import centred, rescaled, scaled
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac_sdk.dtypes import DType

SIGNED = frozenset({DType.I8, DType.I16, DType.I32, DType.I64})
RAISED = 8  # bits that a comparison adds
LARGEST = 7  # the exponent of a factor that the kernels take for sums of 64 bits


def stored(
    call: TFLiteCall, kinds: frozenset[DType], count: int, first: int = 0
) -> list[Node] | None:
    """The `count` operands from `first` on as integers, where all of them are of one of these
    types.
    """
    numbers = range(first, first + count)
    infos = [call.info(number) for number in numbers]
    if len({info.dtype for info in infos}) > 1 or any(info.kind in PACKED for info in infos):
        return None
    return [call[number] for number in numbers] if infos[0].dtype in kinds else None


def quotient(x: Node, y: Node) -> Node:
    """The greatest integer that is not above x / y; the least of 8 or 16 bits over -1 is the least
    again, which is what the kernels give.
    """
    kind = x.type.dtype
    if kind.bits > 16:
        return build.apply1("floor_divide", x, y)
    wide = build.apply1("floor_divide", build.cast(x, DType.I32), build.cast(y, DType.I32))
    return build.cast(wide, kind)


def compared(call: TFLiteCall, direction: str) -> Node | None:
    """Whether x is equal to y, less, …: of 8 bits as integers with 8 bits after the point of real
    numbers, so that some different ones are equal. Scales of 1 and more, for which the kernels
    define nothing, compare as real numbers.
    """
    operands = stored(call, frozenset({DType.I8, DType.U8, DType.I16}), 2)
    if operands is None:
        return None
    if operands[0].type.dtype is DType.I16 and direction not in ("eq", "ne"):
        return build.compare(operands[0], direction, operands[1])
    found = [call.info(number).quantization for number in range(2)]
    known = [each for each in found if each is not None]
    if not known:
        return build.compare(operands[0], direction, operands[1])
    if len(known) < 2 or not all(each.single and 0 < each.scales[0] < 1 for each in known):
        return None
    most = 1 << RAISED + 1 + operands[0].type.dtype.bits
    x, y = (
        rescaled(
            build.mul(build.cast(centred(operand, each), DType.I32), 1 << RAISED),
            float(each.scales[0]),
            most,
        )
        for operand, each in zip(operands, known, strict=True)
    )
    return build.compare(x, direction, y)


def reduced_product(call: TFLiteCall, axes: Sequence[int], keep: bool) -> Node | None:
    """The product along axes, of 8 or 16 bits: after each factor it is brought to the n-th root of
    the result's scale, by 16 bits of that ratio.
    """
    before, after = call.info(0).quantization, call.out().quantization
    x = call[0]
    if before is None or after is None or not before.single or not after.single:
        return None
    if call.out().dtype is not x.type.dtype or call.info(0).kind not in ("INT8", "INT16"):
        return None
    count = prod(x.shape[axis] for axis in axes)
    if not isinstance(count, int):
        call.fail(f"products of integers need a known number of them, got {x.type}")
    if not count:
        return None
    by = multiplier(float(before.scales[0]) / float(after.scales[0]) ** (1 / count))
    if by.exponent > LARGEST:
        call.fail(f"its scales, {before.scales[0]} and {after.scales[0]}, are too far apart")
    others = [axis for axis in range(x.type.rank) if axis not in axes]
    factors = build.transpose(build.cast(centred(x, before), DType.I32), (*axes, *others))
    factors = build.reshape(factors, (count, *(x.shape[axis] for axis in others)))
    total = _multiplied_one_by_one(factors, by)
    result = scaled(build.cast(total, DType.I64), by, call.out())
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return build.reshape(result, shape) if keep else result


def _multiplied_one_by_one(factors: Node, by: Multiplier) -> Node:
    """The product of factors i32[n, …], in their order, each time times a multiplier."""
    count = factors.shape[0]
    first = build.reshape(build.cut(factors, 0, 0, 1), factors.shape[1:])
    if count == 1:
        return first

    def step(total: Node, factor: Node) -> tuple[Node, ...]:
        wide = build.mul(build.cast(total, DType.I64), build.cast(factor, DType.I64))
        return (multiplied(wide, by),)

    body = build.graph("step", [first.type, first.type], step)
    rest = build.cut(factors, 0, 1, count)
    return build.results(Node.of(Scan(body, count - 1, 1, 1), first, rest))[0]
