"""Derivatives of scans: the tangents are a scan that reads the residuals of each step, the
cotangents one that goes the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.autodiff.bodies import ForwardMode, PullBack, Tangents, linearized_to_fixpoint
from xlac.ir.graph import Graph, Node, pick, walk, zeros
from xlac.ops import build
from xlac.ops.control.bounded import CountedScan
from xlac.ops.control.control import Scan
from xlac.ops.walks import closed, dependents, fresh, substituted


def _count_operands(op: Scan | CountedScan) -> int:
    """The number of operands, 0 or 1, that hold the number of steps."""
    return int(isinstance(op, CountedScan))


def scan_jvp(
    node: Node, op: Scan | CountedScan, tangents: Sequence[Node | None], forward: type[ForwardMode]
) -> tuple[tuple[Node, ...], Tangents]:
    """The results of a scan, from a new one that also returns residuals, and their tangents, which
    a second scan computes.
    """
    assert op.body is not None
    body, count, lead = op.body, op.carries, node.inputs[: _count_operands(op)]
    inputs, tangents = node.inputs[len(lead) :], tangents[len(lead) :]
    active = [tangent is not None for tangent in tangents]
    parts = linearized_to_fixpoint(body, active, count, forward)
    carry, slices, rest = op.parts(body.inputs)
    yielded, passed, fixed = _residuals(op, body, parts.residuals)

    full = replace(op, body=closed(body.name, body.inputs, [*parts.values, *yielded]))
    new = Node.of(full, *node.inputs, origin=node.origin)
    results = tuple(pick(new, n) for n in range(len(node.results)))
    stacked = [pick(new, len(node.results) + n) for n in range(len(yielded))]

    outer = dict(zip(body.inputs, inputs, strict=True))
    given = {
        i: tangent or zeros(operand.type)
        for i, operand, tangent, on in zip(body.inputs, inputs, tangents, active, strict=True)
        if on
    }
    on_carry = [n for n in range(count) if active[n]]
    split = dict(zip(given, parts.sources, strict=True))
    own = [parts.tangents[n] or zeros(parts.values[n].type) for n in on_carry]
    on_results = [n for n in range(count, len(node.results)) if parts.tangents[n] is not None]
    takes = [
        *(split[carry[n]] for n in on_carry),
        *yielded,
        *passed,
        *(split[x] for x in slices if x in split),
        *fixed,
        *(split[r] for r in rest if r in split),
    ]
    gives = [*own, *(parts.tangents[n] for n in on_results)]
    tangent = replace(
        op,
        body=closed(f"{body.name}_change", takes, [g for g in gives if g is not None]),
        carries=len(on_carry),
        scanned=len(yielded) + len(passed) + sum(x in split for x in slices),
    )
    linear = Node.of(
        tangent,
        *lead,
        *(given[carry[n]] for n in on_carry),
        *stacked,
        *(outer[x] for x in passed),
        *(given[x] for x in slices if x in split),
        *substituted(fixed, outer),
        *(given[r] for r in rest if r in split),
        origin=node.origin,
    )
    places = {n: place for place, n in enumerate([*on_carry, *on_results])}
    result_tangents = tuple(
        pick(linear, places[n]) if n in places else None for n in range(len(node.results))
    )
    return results, result_tangents


def _residuals(
    op: Scan | CountedScan, body: Graph, alike: Sequence[Node]
) -> tuple[list[Node], list[Node], list[Node]]:
    """Residuals of a step: those that the first scan has to return, those that are slices of what
    it reads, and those that are the same in every step. With checkpoints residuals are the inputs
    of a step, and the rest is recomputed.
    """
    carry, slices, _ = op.parts(body.inputs)
    if isinstance(op, Scan) and op.checkpoint_every:
        under = set(walk(alike))
        alike = [i for i in body.inputs if i in under]
    moving = dependents(alike, set(carry) | set(slices))
    yielded = [r for r in alike if r in moving and r not in slices]
    return yielded, [r for r in alike if r in slices], [r for r in alike if r not in moving]


def scan_transposed(
    node: Node,
    op: Scan | CountedScan,
    linear: Sequence[bool],
    cotangents: Sequence[Node | None],
    pull: PullBack,
) -> list[Node | None]:
    """The reverse scan. It carries the cotangents of carried values, and sums of the cotangents of
    loop-invariant operands.
    """
    assert op.body is not None
    body, count, lead = op.body, op.carries, node.inputs[: _count_operands(op)]
    outputs, linear = list(body.outputs.values()), linear[len(lead) :]
    inputs = node.inputs[len(lead) :]
    carried, slices, rest = op.parts(list(zip(body.inputs, inputs, linear, strict=True)))
    first = [param for param, _, on in (*carried, *slices, *rest) if on]
    sources = _all_linear(outputs, [p for p, _, _ in carried], first)
    depend = dependents(outputs, sources)
    own = [n for n, (p, _, _) in enumerate(carried) if p in sources]
    assert len(own) == count, "a linear scan carries linear values only"
    yields = [
        n for n in range(count, len(outputs)) if outputs[n] in depend and cotangents[n] is not None
    ]
    xs, fixed = [p for p, _, on in slices if on], [s for s in slices if not s[2]]
    rs, alike = [p for p, _, on in rest if on], [r for r in rest if not r[2]]
    back = fresh([outputs[n].type for n in (*own, *yields)], "ct")
    sums = fresh([r.type for r in rs], "sum")
    inner = pull(
        [outputs[n] for n in (*own, *yields)], back, [*(p for p, _, _ in carried), *xs, *rs]
    )
    at_carry, at_xs, at_rs = inner[:count], inner[count : count + len(xs)], inner[count + len(xs) :]
    gives = [
        *(f or zeros(p.type) for f, (p, _, _) in zip(at_carry, carried, strict=True)),
        *(s if f is None else build.add(s, f) for f, s in zip(at_rs, sums, strict=True)),
        *(f or zeros(p.type) for f, p in zip(at_xs, xs, strict=True)),
    ]
    takes = [*back[:count], *sums, *back[count:], *(p for p, _, _ in (*fixed, *alike))]
    tangent = replace(
        op,
        body=closed(f"{body.name}_back", takes, gives),
        carries=count + len(sums),
        scanned=len(yields) + len(fixed),
        reverse=not op.reverse,
    )
    new = Node.of(
        tangent,
        *lead,
        *(cotangents[n] or zeros(node.results[n]) for n in range(count)),
        *(zeros(s.type) for s in sums),
        *(cotangents[n] for n in yields),  # type: ignore[arg-type]
        *(operand for _, operand, _ in (*fixed, *alike)),
        origin=node.origin,
    )
    of = iter([pick(new, n) for n in range(count + len(sums) + len(xs))])
    first, totals, each = ([next(of) for _ in part] for part in (range(count), sums, xs))
    by_param = dict(
        zip([*(p for p, _, _ in carried), *rs, *xs], [*first, *totals, *each], strict=True)
    )
    back_to = [by_param.get(p) if on else None for p, on in zip(body.inputs, linear, strict=True)]
    return [*[None] * len(lead), *back_to]


def _all_linear(
    outputs: Sequence[Node], carried: Sequence[Node], sources: list[Node]
) -> list[Node]:
    """The parameters of a step that are linear, and those that become so after the first step."""
    while True:
        depend = dependents(outputs, sources)
        more = [
            param
            for param, out in zip(carried, outputs, strict=False)
            if out in depend and param not in sources
        ]
        if not more:
            return sources
        sources = sources + more
