"""Loops and branches of traced functions: `xlac.scan`, `xlac.while_loop`, `xlac.cond`,
`xlac.switch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import CellType
from typing import Any

from xlac.frontends.pytree import flatten, unflatten
from xlac.frontends.traced_bodies import CarriedNest, around, graph, inside, traced, wrong
from xlac.frontends.traced_function import inlined
from xlac.frontends.tracing import Number, Tensor
from xlac.ir.dims import Dim
from xlac.ir.graph import Node, walk
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Cond, Scan, While
from xlac.ops.walks import dependents
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError


def scan(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: Dim | None = None,
    reverse: bool = False,
    checkpoint_every: int = 0,
) -> Any:
    """Runs `f(carry, x)`, which returns the next carry and a value of its step, for every slice of
    `xs` along axis 0, or `length` times. Returns the last carry, and the steps' values stacked.

    The carry, `xs` and the values are arrays, numbers and pytrees of these. `reverse` runs from the
    last slice to the first. With `checkpoint_every`, the gradient keeps the carry of every so many
    steps and recomputes what else it needs. Raises SourceError for arguments that do not fit.
    """
    inside("scan")
    carry, rows = CarriedNest("scan", init), list[Tensor]()
    row = flatten(inlined(xs), rows)
    steps = _steps(rows, length)
    slices = [x.node.type.with_shape(x.shape[1:]) for x in rows]
    count = len(carry.leaves)

    def step(tensors: list[Tensor]) -> Any:
        results = f(carry.of(tensors[:count]), unflatten(row, tensors[count:]))
        if not isinstance(results, tuple) or len(results) != 2:
            raise wrong(
                "scan(): a step must return a pair", "return carry, value; None for no value"
            )
        return results

    body = carry.settle(step, slices, pair=True)
    output_nodes = body.nodes(
        [*(t.dtype for t in carry.types()), *[None] * (len(body.results) - count)]
    )
    others = around((body.params, output_nodes))
    op = Scan(
        graph("step", body, others, output_nodes),
        steps,
        count,
        len(rows),
        reverse,
        checkpoint_every,
    )
    given = [*(leaf.node for leaf in carry.leaves), *(x.node for x in rows), *others]
    tensors_of_results = (
        [Tensor(node) for node in build.results(Node.of(op, *given))] if output_nodes else []
    )
    return unflatten(body.tree, tensors_of_results)


def _steps(rows: Sequence[Tensor], length: Dim | None) -> Dim:
    if any(isinstance(x, Number) or not x.shape for x in rows):
        raise wrong("scan(): xs has a number, which has no slices")
    sizes: list[Dim] = [x.shape[0] for x in rows] + ([] if length is None else [length])
    if not sizes:
        raise wrong("scan(): the number of steps is not given", "give xs, or length")
    if any(size != sizes[0] for size in sizes):
        raise wrong(f"scan(): {' and '.join(map(str, dict.fromkeys(sizes)))} steps at once")
    return sizes[0]


def while_loop(
    cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, max: Dim | None = None
) -> Any:
    """Runs `body(carry)`, which returns the next carry, while `cond(carry)`, a bool scalar, is
    true; with `max`, at most that many times. Returns the last carry.

    The carry is an array, a number or a pytree of these. Only a loop with `max` has a gradient,
    which stores the residuals of `max` steps. Raises SourceError for arguments that do not fit.
    """
    inside("while_loop")
    carry = CarriedNest("while_loop", init)
    step = carry.settle(lambda tensors: body(carry.of(tensors)), [])
    test = traced(lambda tensors: cond(carry.of(tensors)), carry.types())
    output_nodes = step.nodes([t.dtype for t in carry.types()])
    goes_on = test.nodes()
    if [node.type for node in goes_on] != [Type(DType.BOOL)]:
        raise wrong("while_loop(): the condition gives no bool scalar")
    if max is None and goes_on[0] not in dependents(goes_on, test.params):
        problem = (
            "while_loop(): the condition reads nothing of the carry: it is the same before "
            "every step"
        )
        raise SourceError(Diagnostic("XL2018", problem, hint="max=… ends the loop"))
    others = around((step.params, output_nodes), (test.params, goes_on))
    turn = graph("step", step, others, [*output_nodes, *others])
    question = graph("goes_on", test, others, goes_on)
    op = While(question, turn) if max is None else BoundedWhile(question, turn, max)
    given = [*(leaf.node for leaf in carry.leaves), *others]
    results = build.results(Node.of(op, *given))
    return carry.of([Tensor(node) for node in results[: len(output_nodes)]])


def cond(
    predicate: Any, true: Callable[..., Any], false: Callable[..., Any], *operands: Any
) -> Any:
    """`true(*operands)` where the bool scalar is true, else `false(*operands)`; only one is
    computed.

    Both return arrays or pytrees of them, of the same types. Raises SourceError for arguments that
    do not fit.
    """
    inside("cond")
    if isinstance(predicate, bool):
        return (true if predicate else false)(*operands)
    (which,) = _scalar("cond", predicate, "a bool", lambda t: t is DType.BOOL)
    return _branched("cond", build.cast(which, DType.I32), [false, true], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`; an index out of range selects the last branch. Only one is
    computed.

    All return arrays or pytrees of them, of the same types. Raises SourceError for arguments that
    do not fit.
    """
    inside("switch")
    if not branches:
        raise wrong("switch(): there is no branch")
    (which,) = _scalar("switch", index, "an integer", lambda t: t.is_integer)
    return _branched("switch", build.cast(which, DType.I32), branches, operands)


def _scalar(function: str, value: Any, kind: str, fits: Callable[[DType], bool]) -> list[Node]:
    leaves: list[Tensor] = []
    flatten(inlined(value), leaves)
    if len(leaves) != 1 or leaves[0].shape or not fits(leaves[0].dtype):
        raise wrong(f"{function}(): {kind} scalar says which branch is taken")
    return [leaves[0].node]


def _branched(
    function: str, which: Node, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    """Builds a branch operation. Branches compute on their operands and on tensors that they
    capture; other captured values are known at compile time.
    """
    given: list[Tensor] = []
    tree = flatten(inlined(tuple(operands)), given)
    held = dict.fromkeys(t.node for f in branches for t in _held(f) if not isinstance(t, Number))
    types = [t.node.type for t in given]

    def run(branch: Callable[..., Any], tensors: list[Tensor]) -> Any:
        return branch(*unflatten(tree, tensors))

    bodies = [traced(partial(run, branch), types) for branch in branches]
    first, *rest = bodies
    if any(body.tree != first.tree for body in rest):
        raise wrong(f"{function}(): branches give nests that differ")
    wanted = [_type(function, each) for each in zip(*(b.results for b in bodies), strict=True)]
    output_nodes = [body.nodes(wanted) for body in bodies]
    for number, gives in enumerate(
        zip(*([n.type for n in each] for each in output_nodes), strict=True)
    ):
        if len(set(gives)) > 1:
            listed = " and ".join(map(str, dict.fromkeys(gives)))
            raise wrong(
                f"{function}(): branches give {listed} as result {number}", "cast or reshape one"
            )
    reached = set(walk(node for each in output_nodes for node in each))
    known = [node for node in held if node in reached]
    others = around(*(([*b.params, *known], m) for b, m in zip(bodies, output_nodes, strict=True)))
    graphs = tuple(
        graph(f"branch{n}", b, [*known, *others], m)
        for n, (b, m) in enumerate(zip(bodies, output_nodes, strict=True))
    )
    values = [*(t.node for t in given), *known, *others]
    results = build.results(Node.of(Cond(graphs), which, *values)) if first.results else ()
    return unflatten(first.tree, [Tensor(node) for node in results])


def _type(function: str, each: Sequence[Tensor]) -> DType | None:
    """The element type of a number that one branch returns: that of the tensor returned by
    another.
    """
    return next((t.dtype for t in each if not isinstance(t, Number)), None)


def _held(value: Any, seen: set[int] | None = None) -> list[Tensor]:
    """The tensors that a function captures, also in pytrees and through other functions."""
    seen = set() if seen is None else seen
    if isinstance(value, Tensor):
        return [value]
    if id(value) in seen:
        return []
    seen.add(id(value))
    parts: list[Any] = []
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif isinstance(value, CellType):
        with suppress(ValueError):  # not assigned yet
            parts = [value.cell_contents]
    elif callable(value) and not isinstance(value, type):
        parts = [
            *(getattr(value, "__closure__", None) or ()),
            *(getattr(value, "__defaults__", None) or ()),
        ]
        parts += [getattr(value, name, None) for name in ("__self__", "func", "args", "keywords")]
    elif hasattr(value, "__dict__") and type(value).__module__ != "builtins":
        parts = list(vars(value).values())
    return [tensor for part in parts for tensor in _held(part, seen)]
