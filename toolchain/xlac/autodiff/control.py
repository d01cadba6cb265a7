"""Derivatives of control nodes, those of branches and calls here, of loops in `scan` and `bounded`.

The node that computes the values also returns residuals: intermediate values that its tangents
need. The tangents are a second node of the same kind, linear in the tangents of its operands, which
reverse mode transposes body by body.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlac.autodiff.bodies import ForwardMode, PullBack, Tangents, linearize
from xlac.autodiff.bounded import bounded_while_jvp, while_jvp
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.scan import scan_jvp, scan_transposed
from xlac.ir.graph import Graph, Node, pick, zeros
from xlac.ir.op import Op
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.walks import closed, fresh


def is_control(op: Op) -> bool:
    """Whether an operation is a loop, a branch or a call."""
    return isinstance(op, Scan | Cond | Call | While | BoundedWhile | CountedScan)


def jvp(
    node: Node, tangents: Sequence[Node | None], forward: type[ForwardMode]
) -> tuple[tuple[Node, ...], Tangents]:
    """The results of a control node, from a new one that also returns residuals, and their
    tangents.
    """
    match node.op:
        case Scan() | CountedScan():
            return scan_jvp(node, node.op, tangents, forward)
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
    """The cotangents of those inputs of a control node, marked `linear`, in which it is linear,
    given those of its results (None: zero).
    """
    match node.op:
        case Scan() | CountedScan():
            return scan_transposed(node, node.op, linear, cotangents, pull)
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
        "has a number of steps that depends on data, so a gradient needs a bound on it",
        "give `max`, the most steps that it takes",
    )


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
    kept = [
        [r for r in p.residuals if r not in b.inputs] for p, b in zip(parts, bodies, strict=True)
    ]
    full = [
        closed(
            body.name,
            body.inputs,
            [
                *part.values,
                *(r if k == n else zeros(r.type) for k, rs in enumerate(kept) for r in rs),
            ],
        )
        for n, (body, part) in enumerate(zip(bodies, parts, strict=True))
    ]
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
        cotangents_of_sources = pull([outputs[n] for n in given], back, sources)
        gives = [f or zeros(s.type) for f, s in zip(cotangents_of_sources, sources, strict=True)]
        bodies.append(closed(f"{body.name}_back", [*others, *back], gives))
    new = Node.of(
        _with_bodies(node.op, bodies),
        *node.inputs[:skip],
        *fixed,
        *(cotangents[n] for n in given),  # type: ignore[arg-type]
        origin=node.origin,
    )
    each = iter([pick(new, n) for n in range(sum(flags))])
    return [*[None] * skip, *(next(each) if on else None for on in flags)]
