"""Derivatives of loops whose number of iterations depends on data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.autodiff.bodies import ForwardMode, Tangents, linearized_to_fixpoint
from xlac.ir.graph import Node, pick, zeros
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import While
from xlac.ops.walks import closed, dependents, fresh, substituted


def bounded_while_jvp(
    node: Node, op: BoundedWhile, tangents: Sequence[Node | None], forward: type[ForwardMode]
) -> tuple[tuple[Node, ...], Tangents]:
    """The results and tangents of a bounded loop. The loop also stacks the residuals of each
    iteration and counts iterations; the tangents are a scan over these, of as many steps.
    """
    assert op.body is not None
    body, count = op.body, len(node.inputs)
    outputs = list(body.outputs.values())
    active = [tangent is not None for tangent in tangents]
    parts = linearized_to_fixpoint(body, active, count, forward)
    # a carried value that the body passes on unchanged is loop-invariant
    steady = [outputs[n] is i for n, i in enumerate(body.inputs)]
    moving = dependents(
        parts.residuals, [i for i, on in zip(body.inputs, steady, strict=True) if not on]
    )
    yielded = [r for r in parts.residuals if r in moving]
    fixed = [r for r in parts.residuals if r not in moving]

    full = replace(op, body=closed(body.name, body.inputs, [*parts.values, *yielded]))
    new = Node.of(full, *node.inputs, origin=node.origin)
    results = tuple(pick(new, n) for n in range(len(node.results)))
    stacked = [pick(new, len(node.results) + n) for n in range(len(yielded))]

    outer = dict(zip(body.inputs, node.inputs, strict=True))
    sources = dict(zip([n for n, on in enumerate(active) if on], parts.sources, strict=True))
    given = {n: tangents[n] or zeros(node.inputs[n].type) for n in sources}
    own = [n for n in sources if not steady[n]]
    rest = [n for n in sources if steady[n]]
    shown = [n for n in range(count, len(outputs)) if parts.tangents[n] is not None]
    gives = [parts.tangents[n] or zeros(outputs[n].type) for n in (*own, *shown)]
    result_tangents: list[Node | None] = [given.get(n) for n in range(count)]
    result_tangents += [None] * (len(node.results) - count)
    if gives:
        takes = [*(sources[n] for n in own), *yielded, *fixed, *(sources[n] for n in rest)]
        tangent = CountedScan(
            closed(f"{body.name}_change", takes, gives), op.max, len(own), len(yielded)
        )
        linear = Node.of(
            tangent,
            results[count],
            *(given[n] for n in own),
            *stacked,
            *substituted(fixed, outer),
            *(given[n] for n in rest),
            origin=node.origin,
        )
        for place, n in enumerate(
            (*own, *(1 + n for n in shown))
        ):  # the count is among the results
            result_tangents[n] = pick(linear, place)
    return results, tuple(result_tangents)


def while_jvp(
    node: Node, op: While, tangents: Sequence[Node | None], forward: type[ForwardMode]
) -> tuple[tuple[Node, ...], Tangents]:
    """The results and tangents of a loop without a bound: one loop carries both, so it cannot be
    transposed.
    """
    assert op.body is not None and op.cond is not None
    active = [tangent is not None for tangent in tangents]
    parts = linearized_to_fixpoint(op.body, active, len(active), forward)
    own = [n for n, on in enumerate(active) if on]
    inputs = [*op.body.inputs, *parts.sources]
    gives = [*parts.values, *(parts.tangents[n] or zeros(node.results[n]) for n in own)]
    test = closed(
        op.cond.name,
        [*op.cond.inputs, *fresh([s.type for s in parts.sources], "t")],
        list(op.cond.outputs.values()),
    )
    both = While(test, closed(op.body.name, inputs, gives))
    new = Node.of(
        both,
        *node.inputs,
        *(tangents[n] or zeros(node.results[n]) for n in own),
        origin=node.origin,
    )
    count = len(node.results)
    places = {n: count + place for place, n in enumerate(own)}
    result_tangents = tuple(pick(new, places[n]) if n in places else None for n in range(count))
    return tuple(pick(new, n) for n in range(count)), result_tangents
