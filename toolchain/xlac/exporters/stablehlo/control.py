"""Exports branches, loops and calls. Bodies refer to outer values."""

from __future__ import annotations

from xlac.exporters.stablehlo.scalars import compared
from xlac.exporters.stablehlo.views import reshaped, spread, windowed
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops.control.control import Cond, Scan, While
from xlac_sdk.dtypes import DType

COUNTER = Type(DType.I64)


@rule("call")
def call(w: StableHloWriter, node: Node, *args: SsaValue) -> list[SsaValue]:
    """Inlines the body of a call."""
    return w.inline(node.op.body, args)  # type: ignore[attr-defined]


@rule("cond")
def cond(w: StableHloWriter, node: Node, index: SsaValue, *args: SsaValue) -> list[SsaValue]:
    """case; as in our operation, numbers beyond the last branch select the last."""
    assert isinstance(node.op, Cond)
    regions = [w.region([], lambda b=b: w.inline(b, args)) for b in node.op.branches]
    return w.many("case", [index], node.results, regions=regions)


@rule("while")
def loop(w: StableHloWriter, node: Node, *carry: SsaValue) -> list[SsaValue]:
    """while, with its condition and body as regions."""
    op = node.op
    assert isinstance(op, While) and isinstance(op.cond, Graph) and isinstance(op.body, Graph)
    test, body = op.cond, op.body
    types = [c.type for c in carry]
    regions = [
        w.region(types, lambda *v: w.inline(test, v)),
        w.region(types, lambda *v: w.inline(body, v)),
    ]
    return w.many("while", carry, types, regions=regions)


@rule("scan")
def scan(w: StableHloWriter, node: Node, *operands: SsaValue) -> list[SsaValue]:
    """A counting loop: each iteration reads the slices at the counter, and writes its results
    there.
    """
    op = node.op
    assert isinstance(op, Scan) and isinstance(op.body, Graph)
    body, end = op.body, op.carries + op.scanned
    carry, xs, rest = operands[: op.carries], operands[op.carries : end], operands[end:]
    stacks = [empty(w, type) for type in node.results[op.carries :]]
    zero, one, count = (w.sizes.value(n) for n in (0, 1, op.length))
    state = [zero, *carry, *stacks]
    types = [s.type for s in state]

    def test(step: SsaValue, *_: SsaValue) -> list[SsaValue]:
        return [compared(w, "lt", step, count)]

    def run(step: SsaValue, *values: SsaValue) -> list[SsaValue]:
        at = (
            w.op("subtract", [w.op("subtract", [count, one], COUNTER), step], COUNTER)
            if op.reverse
            else step
        )
        slices = [sliced(w, x, at, zero) for x in xs]
        after = w.inline(body, [*values[: op.carries], *slices, *rest])
        grown = [
            written(w, stack, part, at, zero)
            for stack, part in zip(values[op.carries :], after[op.carries :], strict=True)
        ]
        return [w.op("add", [step, one], COUNTER), *after[: op.carries], *grown]

    regions = [w.region(types, test), w.region(types, run)]
    return w.many("while", state, types, regions=regions)[1:]


def empty(w: StableHloWriter, type: Type) -> SsaValue:
    """A tensor of zeros, of which every element is written later."""
    return spread(w, w.constant(0, type.dtype), type, ())


def sliced(w: StableHloWriter, x: SsaValue, at: SsaValue, zero: SsaValue) -> SsaValue:
    """Slice `at` of x along axis 0, without the axis."""
    shape = x.type.shape[1:]
    row = windowed(w, x, [at, *[zero] * len(shape)], (1, *shape))
    return reshaped(w, row, shape)


def written(
    w: StableHloWriter, stack: SsaValue, part: SsaValue, at: SsaValue, zero: SsaValue
) -> SsaValue:
    """The stack with slice `at` along axis 0 replaced."""
    row = reshaped(w, part, (1, *part.type.shape))
    return w.op("dynamic_update_slice", [stack, row, at, *[zero] * part.type.rank], stack.type)
