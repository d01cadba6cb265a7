"""Derivatives of loops, branches and calls.

The node that computes the values also returns residuals: intermediate values that its tangents need.
The tangents are a second node of the same kind, linear in the tangents of its operands, which reverse
mode transposes body by body.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xlac.autodiff.bodies import ForwardMode, PullBack, Tangents, linearize, linearized_to_fixpoint
from xlac.autodiff.bounded import bounded_while_jvp, while_jvp
from xlac.autodiff.errors import NoDerivativeError
from xlac.ir.graph import Graph, Node, pick, walk, zeros
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.walks import closed, dependents, fresh, substituted


def is_control(op: Op) -> bool:
    """Whether an operation is a loop, a branch or a call."""
    return isinstance(op, Scan | Cond | Call | While | BoundedWhile | CountedScan)


def jvp(
    node: Node, tangents: Sequence[Node | None], forward: type[ForwardMode]
) -> tuple[tuple[Node, ...], Tangents]:
    """The results of a control node, from a new one that also returns residuals, and their tangents."""
    match node.op:
        case Scan() | CountedScan():
            return _scan(node, node.op, tangents, forward)
        case Cond() | Call():
            return _branches(node, tangents, forward)
        case While():
            return while_jvp(node, node.op, tangents, forward)
        case BoundedWhile():
            return bounded_while_jvp(node, node.op, tangents, forward)
    raise AssertionError(node.op.mnemonic)


def transposed(
    node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None], pull: PullBack
) -> Sequence[Node | None] | None:
    """The cotangents of those inputs of a control node, marked `linear`, in which it is linear, given
    those of its results (None: zero).
    """
    match node.op:
        case Scan() | CountedScan():
            return _scan_transposed(node, node.op, linear, cotangents, pull)
        case Cond() | Call():
            return _branches_transposed(node, linear, cotangents, pull)
    raise AssertionError(node.op.mnemonic)


def check_transposable(nodes: Iterable[Node]) -> None:
    """Raises NoDerivativeError where one of the nodes is a loop without a bound: it carries values
    together with their tangents (`while_jvp`), so reverse mode cannot transpose it.
    """
    node = next((node for node in nodes if isinstance(node.op, While)), None)
    if node is None:
        return
    raise NoDerivativeError(
        node,
        "runs as often as its condition says: a gradient through it needs to know how often at most",
        "give `max`, the most steps that it takes",
    )


# ---- scans -----------------------------------------------------------------------------------


def _count_operands(op: Scan | CountedScan) -> int:
    """The number of operands, 0 or 1, that hold the number of steps."""
    return int(isinstance(op, CountedScan))


def _scan(
    node: Node, op: Scan | CountedScan, tangents: Sequence[Node | None], forward: type[ForwardMode]
) -> tuple[tuple[Node, ...], Tangents]:
    assert op.body is not None
    body, count, lead = op.body, op.carries, node.inputs[: _count_operands(op)]
    inputs, tangents = node.inputs[len(lead) :], tangents[len(lead) :]
    active = [tangent is not None for tangent in tangents]
    parts = linearized_to_fixpoint(body, active, count, forward)
    carry, slices, rest = op.parts(body.inputs)
    steps, alike = set(carry) | set(slices), parts.residuals
    if (
        isinstance(op, Scan) and op.checkpoint_every
    ):  # residuals are the inputs of a step: the rest is recomputed
        under = set(walk(alike))
        alike = [i for i in body.inputs if i in under]
    moving = dependents(alike, steps)
    yielded = [r for r in alike if r in moving and r not in slices]
    passed = [r for r in alike if r in slices]
    fixed = [r for r in alike if r not in moving]

    full = replace(op, body=closed(body.name, body.inputs, [*parts.values, *yielded]))
    new = Node.of(full, *node.inputs, origin=node.origin)
    results = tuple(pick(new, n) for n in range(len(node.results)))
    stacked = [pick(new, len(node.results) + n) for n in range(len(yielded))]

    outer = dict(zip(body.inputs, inputs, strict=True))
    outside = substituted(fixed, outer)
    given = {
        i: tangent or zeros(operand.type)
        for i, operand, tangent, on in zip(body.inputs, inputs, tangents, active, strict=True)
        if on
    }
    on_carry = [n for n, c in enumerate(carry) if active[n]]
    split = dict(zip((i for i, on in zip(body.inputs, active, strict=True) if on), parts.sources, strict=True))  # fmt: skip
    own = [parts.tangents[n] or zeros(parts.values[n].type) for n in on_carry]
    on_results = [n for n in range(count, len(node.results)) if parts.tangents[n] is not None]
    takes = [
        *(split[carry[n]] for n in on_carry),
        *yielded, *passed, *(split[x] for x in slices if x in split),
        *fixed, *(split[r] for r in rest if r in split),
    ]  # fmt: skip
    gives = [*own, *(parts.tangents[n] for n in on_results)]
    tangent = replace(
        op, body=closed(f"{body.name}_change", takes, [g for g in gives if g is not None]),
        carries=len(on_carry), scanned=len(yielded) + len(passed) + sum(x in split for x in slices),
    )  # fmt: skip
    linear = Node.of(
        tangent,
        *lead,
        *(given[carry[n]] for n in on_carry),
        *stacked, *(outer[x] for x in passed), *(given[x] for x in slices if x in split),
        *outside, *(given[r] for r in rest if r in split),
        origin=node.origin,
    )  # fmt: skip
    places = {n: place for place, n in enumerate([*on_carry, *on_results])}
    found = tuple(
        pick(linear, places[n]) if n in places else None for n in range(len(node.results))
    )
    return results, found


def _scan_transposed(
    node: Node, op: Scan | CountedScan, linear: Sequence[bool],
    cotangents: Sequence[Node | None], pull: PullBack,
) -> list[Node | None]:  # fmt: skip
    """The reverse scan. It carries the cotangents of carried values, and sums of the cotangents of
    loop-invariant operands.
    """
    assert op.body is not None
    body, count, lead = op.body, op.carries, node.inputs[: _count_operands(op)]
    outputs, linear = list(body.outputs.values()), linear[len(lead) :]
    inputs = node.inputs[len(lead) :]
    carried, slices, rest = op.parts(list(zip(body.inputs, inputs, linear, strict=True)))
    sources = [param for param, _, on in (*carried, *slices, *rest) if on]
    while True:  # a carried value may be linear after the first step only
        depend = dependents(outputs, sources)
        more = [p for (p, _, _), out in zip(carried, outputs, strict=False) if out in depend and p not in sources]  # fmt: skip
        if not more:
            break
        sources += more
    own = [n for n, (p, _, _) in enumerate(carried) if p in sources]
    assert len(own) == count, "a linear scan carries linear values only"
    yields = [n for n in range(count, len(outputs)) if outputs[n] in depend and cotangents[n] is not None]  # fmt: skip
    xs, fixed = [p for p, _, on in slices if on], [s for s in slices if not s[2]]
    rs, alike = [p for p, _, on in rest if on], [r for r in rest if not r[2]]

    back = fresh([outputs[n].type for n in (*own, *yields)], "ct")
    sums = fresh([r.type for r in rs], "sum")
    found = pull([outputs[n] for n in (*own, *yields)], back, [*(p for p, _, _ in carried), *xs, *rs])  # fmt: skip
    at_carry, at_xs, at_rs = found[:count], found[count : count + len(xs)], found[count + len(xs) :]
    gives = [
        *(f or zeros(p.type) for f, (p, _, _) in zip(at_carry, carried, strict=True)),
        *(s if f is None else build.add(s, f) for f, s in zip(at_rs, sums, strict=True)),
        *(f or zeros(p.type) for f, p in zip(at_xs, xs, strict=True)),
    ]
    takes = [
        *back[:count], *sums, *back[count:], *(p for p, _, _ in fixed), *(p for p, _, _ in alike),
    ]  # fmt: skip
    tangent = replace(
        op, body=closed(f"{body.name}_back", takes, gives),
        carries=count + len(sums), scanned=len(yields) + len(fixed), reverse=not op.reverse,
    )  # fmt: skip
    new = Node.of(
        tangent,
        *lead,
        *(cotangents[n] or zeros(node.results[n]) for n in range(count)),
        *(zeros(s.type) for s in sums),
        *(cotangents[n] for n in yields),  # type: ignore[arg-type]
        *(operand for _, operand, _ in fixed),
        *(operand for _, operand, _ in alike),
        origin=node.origin,
    )
    of = iter([pick(new, n) for n in range(count + len(sums) + len(xs))])
    first, totals, each = ([next(of) for _ in part] for part in (range(count), sums, xs))
    by_param = dict(zip([*(p for p, _, _ in carried), *rs, *xs], [*first, *totals, *each], strict=True))  # fmt: skip
    back_to = [by_param.get(p) if on else None for p, on in zip(body.inputs, linear, strict=True)]
    return [*[None] * len(lead), *back_to]


# ---- branches and calls ----------------------------------------------------------------------


def _bodies(op: Op) -> tuple[Graph, ...]:
    assert isinstance(op, Cond | Call)
    return tuple(op.bodies())


def _with_bodies(op: Op, bodies: Sequence[Graph]) -> Op:
    """The same operation with other bodies."""
    if isinstance(op, Cond):
        return Cond(tuple(bodies))
    assert isinstance(op, Call)
    return Call(bodies[0], op.name)


def _branches(
    node: Node, tangents: Sequence[Node | None], forward: type[ForwardMode]
) -> tuple[tuple[Node, ...], Tangents]:
    """Each branch returns the residuals of all branches, with zeros for those of the others, since
    results must have the same types.
    """
    skip = 1 if isinstance(node.op, Cond) else 0
    args, moves = node.inputs[skip:], list(tangents[skip:])
    active = [tangent is not None for tangent in moves]
    bodies = _bodies(node.op)
    parts = [linearize(body, active, forward) for body in bodies]
    kept = [[r for r in p.residuals if r not in b.inputs] for p, b in zip(parts, bodies, strict=True)]  # fmt: skip
    full = [
        closed(
            body.name,
            body.inputs,
            [*part.values, *(r if k == n else zeros(r.type) for k, rs in enumerate(kept) for r in rs)],
        )
        for n, (body, part) in enumerate(zip(bodies, parts, strict=True))
    ]  # fmt: skip
    new = Node.of(_with_bodies(node.op, full), *node.inputs, origin=node.origin)
    count = len(node.results)
    results = tuple(pick(new, n) for n in range(count))
    residuals = [pick(new, n) for n in range(count, len(new.results))]

    moved = [n for n in range(count) if any(part.tangents[n] is not None for part in parts)]
    if not moved:
        return results, (None,) * count
    given = [move for move in moves if move is not None]
    takes_residuals = [fresh([r.type for r in rs], f"r{n}_") for n, rs in enumerate(kept)]
    linear = []
    for n, (body, part) in enumerate(zip(bodies, parts, strict=True)):
        gives = [part.tangents[m] or zeros(node.results[m]) for m in moved]
        every = [r for k, rs in enumerate(takes_residuals) for r in (kept[n] if k == n else rs)]
        linear.append(closed(f"{body.name}_change", [*every, *body.inputs, *part.sources], gives))
    tangent = Node.of(
        _with_bodies(node.op, linear),
        *node.inputs[:skip],
        *residuals,
        *args,
        *given,
        origin=node.origin,
    )
    places = {n: place for place, n in enumerate(moved)}
    return results, tuple(pick(tangent, places[n]) if n in places else None for n in range(count))


def _branches_transposed(
    node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None], pull: PullBack
) -> list[Node | None]:
    skip = 1 if isinstance(node.op, Cond) else 0
    flags = linear[skip:]
    given = [n for n, ct in enumerate(cotangents) if ct is not None]
    fixed = [a for a, on in zip(node.inputs[skip:], flags, strict=True) if not on]
    bodies = []
    for body in _bodies(node.op):
        outputs = list(body.outputs.values())
        sources = [p for p, on in zip(body.inputs, flags, strict=True) if on]
        others = [p for p, on in zip(body.inputs, flags, strict=True) if not on]
        back = fresh([outputs[n].type for n in given], "ct")
        found = pull([outputs[n] for n in given], back, sources)
        gives = [f or zeros(s.type) for f, s in zip(found, sources, strict=True)]
        bodies.append(closed(f"{body.name}_back", [*others, *back], gives))
    new = Node.of(
        _with_bodies(node.op, bodies), *node.inputs[:skip], *fixed, *(cotangents[n] for n in given),  # type: ignore[arg-type]
        origin=node.origin,
    )  # fmt: skip
    each = iter([pick(new, n) for n in range(sum(flags))])
    return [*[None] * skip, *(next(each) if on else None for on in flags)]
