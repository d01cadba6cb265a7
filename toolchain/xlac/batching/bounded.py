"""Batched loops whose number of iterations depends on data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.batching.along import Along
from xlac.batching.bodies import Body, Walk, along, flags, spread, swap_leading_axes, where
from xlac.ir.dims import Dim
from xlac.ir.graph import Node, zeros
from xlac.ir.leading import results
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import COUNT, MOST, BoundedWhile, CountedScan
from xlac.ops.control.control import While
from xlac.ops.walks import closed, fresh, substituted


def _settled(
    op: While | BoundedWhile, carry: list[bool], size: Dim, walk: type[Walk]
) -> tuple[list[bool], Body, Body]:
    """Which carried values have the batch axis, and the condition and body for these: all have it
    where each example has a condition of its own. Iterates, since a mapped output maps its carry.
    """
    assert op.cond is not None and op.body is not None
    while True:
        test, body = (Body(graph, carry, size, walk) for graph in (op.cond, op.body))
        more = [a or b for a, b in zip(carry, flags(body.gives), strict=False)]
        if test.gives[0].mapped:
            more = [True] * len(carry)
        if more == carry:
            return carry, test, body
        carry = more


def _active_values(values: Sequence[Node], runs: Node, size: Dim) -> list[Node]:
    """Values, [batch, …], where examples that do not run get those of the first that does. What the
    body computes for them is discarded; but with their own values it might be infinite, and reverse
    mode would multiply it by 0, which is NaN.
    """
    if size == 0:
        return list(values)
    numbers = build.cast(build.iota((size,), 0), COUNT)
    first = build.reduce(build.select(runs, numbers, MOST), "min")
    active = []
    for value in values:
        one = build.take(value, first, 0)
        if one.type.dtype.is_float:
            one = build.apply1("stop_gradient", one)
        axes = tuple(range(1, value.type.rank))
        active.append(where(runs, value, build.spread(one, value.shape, axes)))
    return active


class _MaskedLoop:
    """A loop whose condition differs between examples: it runs until all are done, and examples
    that are done keep their values.
    """

    def __init__(self, test: Body, body: Body, size: Dim) -> None:
        going = test.gives[0].node
        self.any_running = build.reduce(going, "or")
        (self.running,) = substituted([going], dict(zip(test.params, body.params, strict=True)))
        count, values = len(body.params), _masked_outputs(body, body.params, self.running, size)
        self.carry = [
            new if new is old else where(self.running, new, old)
            for new, old in zip(values[:count], body.params, strict=True)
        ]
        self.yields = [where(self.running, y, zeros(y.type)) for y in values[count:]]


def _masked_outputs(body: Body, mapped: Sequence[Node], runs: Node, size: Dim) -> list[Node]:
    """The outputs of a body for each example, with its `mapped` parameters replaced as in
    `_active_values`; parameters that it passes on are unchanged.
    """
    gives = [each.spread(size) for each in body.gives]
    given = _active_values(mapped, runs, size)
    outputs = substituted(gives, dict(zip(mapped, given, strict=True)))
    return [old if old in body.params else new for old, new in zip(gives, outputs, strict=True)]


def batched_while(op: While, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    """A batched while loop: with one condition for all examples, or one for each."""
    carry, test, body = _settled(op, flags(now), size, walk)
    first = spread(now, carry, size)
    if not test.gives[0].mapped:
        new = replace(op, cond=test.graph([False]), body=body.graph(carry))
        return along(Node.of(new, *first), carry)
    masked = _MaskedLoop(test, body, size)
    new = While(
        closed(test.name, test.params, [masked.any_running]),
        closed(body.name, body.params, masked.carry),
    )
    return along(Node.of(new, *first), carry)


def batched_bounded(
    op: BoundedWhile, now: Sequence[Along], size: Dim, walk: type[Walk]
) -> list[Along]:
    """A batched bounded loop: where each example has a condition, it has a number of steps, too."""
    carry, test, body = _settled(op, flags(now), size, walk)
    first, count = spread(now, carry, size), len(now)
    if not test.gives[0].mapped:
        gives = [*carry, *flags(body.gives)[count:]]
        new = replace(op, cond=test.graph([False]), body=body.graph(gives))
        gives.insert(count, False)
        return _stacked_results(results(Node.of(new, *first)), gives, count + 1)
    masked = _MaskedLoop(test, body, size)
    (taken,) = fresh([Type(COUNT, (size,))], "taken")
    after = build.add(taken, build.cast(masked.running, COUNT))
    new = BoundedWhile(
        closed(test.name, [*test.params, taken], [masked.any_running]),
        closed(body.name, [*body.params, taken], [*masked.carry, after, *masked.yields]),
        op.max,
    )
    loop_results = results(Node.of(new, *first, zeros(taken.type)))
    kept = [
        *loop_results[: count + 1],
        *loop_results[count + 2 :],
    ]  # without the number of steps of all
    return _stacked_results(kept, [True] * len(kept), count + 1)


def counted_scan(op: CountedScan, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    """A batched counted scan. Where each example has a number of steps, the scan runs for the
    largest one; examples that are done keep their values.
    """
    assert op.body is not None
    steps, args = now[0], now[1:]
    carry, scanned, rest = ([*part] for part in op.parts(flags(args)))
    carry = [True] * len(carry) if steps.mapped else carry
    while True:  # until no more carried values get the axis
        body = Body(op.body, [*carry, *scanned, *rest], size, walk)
        more = [on or new for on, new in zip(carry, flags(body.gives), strict=False)]
        if more == carry:
            break
        carry = more
    gives = [*carry, *flags(body.gives)[op.carries :]]
    first, xs, fixed = op.parts(list(args))
    slices = [swap_leading_axes(x.node) if x.mapped else x.node for x in xs]
    others = [r.node for r in fixed]
    if not steps.mapped:
        inputs = [steps.node, *spread(first, carry, size), *slices, *others]
        new = replace(op, body=body.graph(gives))
        return _stacked_results(results(Node.of(new, *inputs)), gives, op.carries)
    at, own = fresh([Type(COUNT), Type(COUNT, (size,))], "step")
    runs = build.compare(build.spread(at, (size,), ()), "lt", own)
    params, end = body.params, op.carries + op.scanned
    mapped = [p for p, on in zip(params, [*carry, *scanned, *rest], strict=True) if on]
    values = _masked_outputs(body, mapped, runs, size)
    kept = [
        *(
            v if v is p else where(runs, v, p)
            for v, p in zip(values[: op.carries], params, strict=False)
        ),
        *(where(runs, v, zeros(v.type)) for v in values[op.carries :]),
    ]
    new = replace(
        op,
        body=closed(body.name, [*params[:end], at, *params[end:], own], kept),
        scanned=op.scanned + 1,
    )
    every = build.cast(build.iota((op.length,), 0), COUNT)
    most = build.reduce(steps.node, "max")
    inputs = [most, *spread(first, carry, size), *slices, every, *others, steps.node]
    return _stacked_results(results(Node.of(new, *inputs)), [True] * len(kept), op.carries)


def _stacked_results(values: Sequence[Node], mapped: Sequence[bool], start: int) -> list[Along]:
    """Results of a batched loop. Those from `start` on are stacked over iterations, [steps, batch,
    …] where mapped; the batch axis is moved to the front.
    """
    return [
        Along(swap_leading_axes(each) if on and n >= start else each, on)
        for n, (each, on) in enumerate(zip(values, mapped, strict=True))
    ]
