"""Op cases: every sample of every operation, compiled for a target and compared with the op's NumPy
meaning.

The samples of one operation are compiled as one model, which also tests how programs share memory;
when that fails, each is compiled alone to say which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.driver import executable, lower
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, Op, Sample
from xlac.model import Model
from xlac.ops.control.control import Pick
from xlac.ops.sampling import draw
from xlac.ops.tensor.leaf import Param
from xlac.ops.transforms.fft import Transform
from xlac_sdk.backend import Backend
from xlac_sdk.conformance.case import without
from xlac_sdk.dtypes import DType
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request

# relative and absolute tolerance of a result, by dtype: a few roundings, more for sums
TOLERANCE = {
    DType.F64: (1e-11, 1e-12),
    DType.F32: (2e-5, 2e-6),
    DType.F16: (4e-3, 1e-3),
    DType.BF16: (3e-2, 8e-3),
}

ROUNDING = {DType.F64: 52, DType.F32: 23, DType.F16: 10, DType.BF16: 7}  # bits of the fraction


@dataclass(frozen=True, eq=False)
class OperationCase:
    """One sample with its input values and what its results must be."""

    name: str
    op: Op
    sample: Sample
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]
    bound: Array | None = None  # of a sum of products: the largest rounding error of each element


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """What became of a case: `passed`, `failed`, `unsupported` or `left out` (for an element type
    that the target lacks), and a line about it.
    """

    case: str
    status: str
    detail: str = ""


def cases(op: type[Op]) -> Iterator[OperationCase]:
    """Every sample of an operation with values."""
    for number, sample in enumerate(op.samples()):
        operation = op(**sample.attributes)
        types = ", ".join(map(str, sample.inputs))
        attributes = "".join(
            f", {k}={v}" for k, v in sample.attributes.items() if not isinstance(v, Graph)
        )
        inputs = draw(sample)
        with np.errstate(all="ignore"):
            result = operation.evaluate(*inputs)
        expected = result if isinstance(result, tuple) else (result,)
        name = f"{op.mnemonic}-{number}: {op.mnemonic}({types}{attributes}) {'/'.join(sample.draw)}"
        yield OperationCase(
            name,
            operation,
            sample,
            inputs,
            tuple(map(np.asarray, expected)),
            bound_of(operation, inputs),
        )


def is_sum(op: Op) -> bool:
    """Whether every result is a plain sum of products of elements."""
    if op.mnemonic in ("reduce", "window", "cumulative"):
        return getattr(op, "combine", "") == "add"
    return op.mnemonic in (
        "dot",
        "linear",
        "matmul",
        "einsum",
        "sum",
        "cumsum",
    ) or op.mnemonic.startswith("conv")


def bound_of(op: Op, inputs: tuple[Array, ...]) -> Array | None:
    """How far two orders of summation may be apart: 2 n eps of what the absolute values sum to, of
    n terms.

    The terms cancel, so a small result says nothing about its error. Ones in the place of every
    element count the terms; eps is that of the type that sums are made in.
    """
    if isinstance(op, Transform):
        return _of_transform(op, inputs)
    if not is_sum(op) or not all(DType.of(a.dtype).is_float for a in inputs):
        return None
    with np.errstate(all="ignore"):
        size = op.evaluate(*(np.abs(a.astype(np.float64)) for a in inputs))
        terms = op.evaluate(*(np.ones(a.shape) for a in inputs))
    assert not isinstance(size, tuple) and not isinstance(terms, tuple)
    eps = float(np.finfo(DType.of(inputs[0].dtype).compute.numpy).eps)
    return np.asarray(2 * eps * terms * size)


def _of_transform(op: Transform, inputs: tuple[Array, ...]) -> Array:
    """2 eps log2 n of the largest of all results, n elements being transformed: what the stages
    promise, whichever element it is.
    """
    with np.errstate(all="ignore"):
        result = op.evaluate(*(a.astype(np.float64) for a in inputs))
    results = result if isinstance(result, tuple) else (result,)
    size = max(a.shape[op.axis] for a in (*inputs, *results))
    largest = max(float(np.abs(a).max(initial=0.0)) for a in results)
    eps = float(np.finfo(inputs[0].dtype).eps)
    return np.asarray(eps * max(4.0, 2 * np.log2(max(size, 1))) * largest)


def model_of(chosen: Sequence[OperationCase]) -> tuple[Model, dict[str, Array], dict[str, Array]]:
    """A model of all the cases, its inputs, and its expected outputs, by name."""
    params: list[Node] = []
    given: dict[str, Array] = {}
    outputs: dict[str, Node] = {}
    expected: dict[str, Array] = {}
    for number, case in enumerate(chosen):
        mine = []
        for position, (type, array) in enumerate(zip(case.sample.inputs, case.inputs, strict=True)):
            name = f"in{number}_{position}"
            mine.append(Node.of(Param(name, type)))
            given[name] = array
        node = Node.of(case.op, *mine)
        params += mine
        for position, array in enumerate(case.expected):
            name = f"out{number}_{position}"
            several = isinstance(node.types, tuple)
            outputs[name] = (
                Node(Pick(position), (node,), node.results[position]) if several else node
            )
            expected[name] = array
    return Model(Graph("conformance", tuple(params), outputs), {}), given, expected


def check(op: type[Op], backend: Backend, request: Request | None = None) -> list[OperationOutcome]:
    """The outcomes of the cases of an operation that a target has the types for."""
    return [o for o in outcomes(op, backend, request) if o.status != "left out"]


def outcomes(
    op: type[Op], backend: Backend, request: Request | None = None, most: int | None = None
) -> Iterator[OperationOutcome]:
    """Runs every case of an operation on a target, or only `most` at equal distances, outcome
    after outcome.
    """
    target = backend.target(request or Request())
    runnable = []
    every = [*cases(op)]
    if most is not None and len(every) > most:
        every = [every[number * len(every) // most] for number in range(most)]
    for case in every:
        why = without(target, (DType.of(array.dtype) for array in (*case.inputs, *case.expected)))
        if why:
            yield OperationOutcome(case.name, "left out", why)
        else:
            runnable.append(case)
    if not runnable:
        return
    try:
        together = _run(runnable, backend, target)
    except Exception:  # whichever case it was fails again alone, and says so
        together = []
    if together and all(o.status == "passed" for o in together):
        yield from together
        return
    fine = True
    for case in runnable:
        for outcome in _alone(case, backend, target):
            fine &= outcome.status == "passed"
            yield outcome
    if fine:
        yield from (o for o in together if o.status != "passed")  # only wrong in company


def _alone(case: OperationCase, backend: Backend, target: Any) -> list[OperationOutcome]:
    try:
        return _run([case], backend, target)
    except UnsupportedError as error:
        return [OperationOutcome(case.name, "unsupported", error.diagnostics[0].message)]
    except Exception as error:
        return [OperationOutcome(case.name, "failed", f"{type(error).__name__}: {error}"[:500])]


def _run(chosen: Sequence[OperationCase], backend: Backend, target: Any) -> list[OperationOutcome]:
    model, given, expected = model_of(chosen)
    compiled = executable(lower(model, target), backend)
    returned = compiled(**given)
    results = returned if isinstance(returned, dict) else {compiled.outputs[0]: returned}
    outcomes = []
    for number, case in enumerate(chosen):
        wrong = [
            difference(np.asarray(results[name]), expected[name], case.bound)
            for name in expected
            if name.startswith(f"out{number}_")
        ]
        detail = "; ".join(w for w in wrong if w)
        outcomes.append(OperationOutcome(case.name, "failed" if detail else "passed", detail))
    return outcomes


def difference(got: Array, want: Array, bound: Array | None = None) -> str:
    """How an array differs from what was expected, beyond its bound or the tolerance of its dtype;
    or nothing.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    dtype = DType.of(want.dtype)
    if not dtype.is_float:
        wrong = got != want
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        relative, absolute = TOLERANCE[dtype]
        if bound is not None:  # and each of the two is rounded to the result's type
            relative = 2 * float(2.0 ** -ROUNDING[dtype])
        finite = b[np.isfinite(b)]
        scale = min(1.0, float(np.abs(finite).max(initial=0.0)))
        wrong = ~np.isclose(
            a, b, rtol=relative, atol=absolute * scale if bound is None else bound, equal_nan=True
        )
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} wrong, first at {place}: {got[place]}, expected "
        f"{want[place]}"
    )
