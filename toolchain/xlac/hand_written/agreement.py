"""Compares hand-written kernels with their reference graphs, on random and on special values.

A kernel is compared before the first program that calls it is run or written. Where it cannot be
run here (another machine's, no device, no compiler), that is recorded in the program's facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.fusion.group import Partition
from xlac.hand_written.permission import called
from xlac.ir.dims import symbols
from xlac.ir.graph import Graph, Node, pick
from xlac.ir.op import Array
from xlac.ir.origins import unnamed
from xlac.ir.text import show
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.control.custom_op import CustomOp, KernelFile
from xlac.ops.tensor.leaf import Param
from xlac.passes.specialize import substituted
from xlac.support.digest import digest
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError, Span, UnavailableError
from xlac_sdk.support.limits import checkpoint
from xlac_sdk.target import Target

Runs = Callable[[Model], Callable[..., Any]]
"""Makes a model callable by the names of its inputs. Raises UnavailableError where this
machine cannot run it.
"""

FACT = "hand_written"  # of a program: the result of `compared`
DRAWS = ("random", "special")
INDEXING = frozenset(
    "gather scatter dyn_slice dyn_update take take_along embedding one_hot cond while scan".split()
)
SEED = 20
_known: dict[tuple[Any, ...], str] = {}


@dataclass(frozen=True, slots=True)
class Application:
    """One use of a kernel: the operation with known sizes, and its place."""

    op: CustomOp
    types: tuple[Type, ...]
    kernel: KernelFile
    span: Span | None


def compared(partition: Partition, target: Target, runs: Runs) -> list[dict[str, str]]:
    """The facts of the kernels that a partition calls: name, file, and why one was not compared
    ("" for one that agrees). Raises SourceError with the first difference of one that does not.
    """
    reasons: dict[tuple[str, str], str] = {}
    for one in applications(partition, target):
        why = agreement(one, target, runs)
        key = (one.op.name, one.kernel.file)
        reasons[key] = reasons.get(key) or why
    return [
        {"name": name, "file": file, "not compared": why} for (name, file), why in reasons.items()
    ]


def applications(partition: Partition, target: Target) -> Iterator[Application]:
    """Every distinct use of a kernel, with open sizes at their usual and at their least values."""
    for group in called(partition):
        node = group.anchor
        open_ = {s.name: s for i in node.inputs for size in i.shape for s in symbols(size)}
        for sizes in ({n: s.opt for n, s in open_.items()}, {n: s.min for n, s in open_.items()}):
            params = tuple(Node.of(Param(f"x{n}", i.type)) for n, i in enumerate(node.inputs))
            call = Node.of(node.op, *params)
            graph = substituted(Graph("k", params, _outputs(call)), sizes)
            (own,) = {n for n in graph.nodes() if isinstance(n.op, CustomOp)}
            assert isinstance(own.op, CustomOp)
            kernel = own.op.kernel(target.name)
            assert kernel is not None
            span = node.origin.span if node.origin else None
            yield Application(own.op, tuple(p.type for p in graph.inputs), kernel, span)
            if not open_:
                break


def agreement(one: Application, target: Target, runs: Runs) -> str:
    """The reason why a kernel could not be compared; "" for one that agrees. Raises SourceError for
    one that does not.
    """
    key = _key(one, target)
    if key in _known:
        return _known[key]
    checkpoint("comparing hand-written kernels")
    params = tuple(Node.of(Param(f"x{n}", t)) for n, t in enumerate(one.types))
    outputs = _outputs(Node.of(one.op, *params))
    model = Model(Graph("agreement", params, outputs), {}, allow_kernels=True)
    try:
        run = runs(model)
    except UnavailableError as error:
        return error.diagnostics[0].message
    for kind in DRAWS:
        given = operands(one, kind)
        with np.errstate(all="ignore"):
            wanted = one.op.evaluate(*given)
        results = run(**{f"x{n}": array for n, array in enumerate(given)})
        results = results if isinstance(results, Mapping) else {"y0": results}
        expected = wanted if isinstance(wanted, tuple) else (wanted,)
        _check(one, kind, [results[name] for name in outputs], expected)
    _known[key] = ""
    return ""


def _key(one: Application, target: Target) -> tuple[Any, ...]:
    """Identifies a comparison: the kernel, its reference graph, tolerances, types and sizes."""
    assert one.op.body is not None
    meaning = digest(show(unnamed(one.op.body)))
    bounds = (one.op.relative, one.op.absolute, one.op.finite)
    facts = (one.types, one.op.sizes, one.op.attributes)
    return one.op.digest(), one.kernel, meaning, bounds, facts, str(target)


def operands(one: Application, kind: str) -> list[Array]:
    """Arrays of random numbers of usual magnitude, or containing special values."""
    rng = np.random.default_rng(SEED)
    assert one.op.body is not None
    indexes = any(node.op.mnemonic in INDEXING for node in one.op.body.nodes())
    special = kind == "special"
    return [_drawn(rng, t, special, indexes, one.op.finite) for t in one.types]


def _drawn(
    rng: np.random.Generator, type: Type, special: bool, indexes: bool, finite: bool
) -> Array:
    shape = tuple(int(n) for n in type.shape if isinstance(n, int))
    dtype = type.dtype
    if dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape), dtype=bool)
    if dtype.is_integer:
        drawn = rng.integers(0, 8, shape)
        if not special or indexes:
            return np.asarray(drawn).astype(dtype.numpy)
        ends = np.iinfo(dtype.numpy)
        values = np.array([ends.min, ends.max, 0, 1, ends.max // 2], dtype.numpy)
        return np.asarray(rng.choice(values, shape))
    numbers = np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
    if not special:
        return numbers
    wide = [0.0, -0.0, 1.0, -1.0, 1e-40, 3e4, -3e4]
    wide += [] if finite else [np.nan, np.inf, -np.inf]
    values = np.array(wide).astype(dtype.numpy)
    chosen = rng.random(shape) < 0.3
    return np.asarray(np.where(chosen, rng.choice(values, shape), numbers)).astype(dtype.numpy)


def _check(
    one: Application, kind: str, results: Sequence[Array], expected: Sequence[Array]
) -> None:
    """Raises SourceError with the first difference."""
    assert one.op.body is not None
    for name, got, want in zip(one.op.body.outputs, results, expected, strict=True):
        got = np.asarray(got)
        wrong = differs(got, want, one.op.relative, one.op.absolute)
        if not wrong.any():
            continue
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        count = int(np.count_nonzero(wrong))
        problem = (
            f"the kernel of '{one.op.name}' for {one.kernel.target} ({one.kernel.file}, "
            f"{one.kernel.place}) is not what the operation means: with {kind} values "
            f"{name}{list(at)} is {got[at]}, and expr gives {want[at]} "
            f"({count} of {want.size} differ)"
        )
        hint = (
            f"the bound is {one.op.absolute:g} + {one.op.relative:g} * |expr|: mend the kernel, or "
            "declare `tolerance`"
        )
        raise SourceError(Diagnostic("XL3034", problem, one.span, hint))


def differs(got: Array, want: Array, relative: float, absolute: float) -> Array:
    """Which elements differ by more than the tolerance; NaN agrees with NaN."""
    if got.dtype == bool or not DType.of(want.dtype).is_float:
        return np.asarray(got != want)
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= absolute + relative * np.abs(b)
    # the tolerance of an infinity is infinite
    return np.asarray(~((near & np.isfinite(b)) | (a == b) | (np.isnan(a) & np.isnan(b))))


def not_compared(facts: Mapping[str, Any]) -> list[str]:
    """A line for each kernel that was not compared."""
    return [
        f"the hand-written kernel of '{one['name']}' ({one['file']}) was not compared with its "
        f"meaning: {one['not compared']}"
        for one in facts.get(FACT, ())
        if one["not compared"]
    ]


def _outputs(node: Node) -> dict[str, Node]:
    return {f"y{n}": pick(node, n) for n in range(len(node.results))}
