"""Derivatives that a target compiles, beside the same ones in f64, and those beside differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from control_cases import Control
from differences import DIRECTIONS, Array, applied, differ, drawn, name_of, paired, widened

from xlac.autodiff.gradient import linearize
from xlac.debug.conformance import TOLERANCE
from xlac.driver import executable, lower
from xlac.ir.graph import Graph, Node, zeros
from xlac.ir.interpret import interpret
from xlac.ir.op import Sample
from xlac.model import Model
from xlac.ops import build, numeric
from xlac.ops.walks import substituted
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

LOST = 8  # how many times what NumPy loses by computing in the same type


@dataclass(frozen=True, eq=False)
class Function:
    """Results of parameters."""

    params: Sequence[Node]
    outputs: Sequence[Node]


class Derivative:
    """The changes of a function's floats along a direction, and their transpose: a graph over its
    parameters, a direction `t0…` and cotangents `w0…`.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.wrt = [p for p in function.params if p.type.dtype.is_float]
        self.values = [o for o in function.outputs if o.type.dtype.is_float]
        found = linearize(self.values, self.wrt)
        weights = [build.param(f"w{n}", o.type.dtype, o.shape) for n, o in enumerate(self.values)]
        changes = [c or zeros(v.type) for c, v in zip(found.tangents, self.values, strict=True)]
        self.params = [*function.params, *found.sources, *weights]
        self.results = [*changes, *found.transposed(list(weights))]

    def drawn(self, direction: int) -> dict[str, Array]:
        """A direction and cotangents, of the types that they have."""
        rng = np.random.default_rng(direction)
        return {
            name_of(p): numeric.convert(rng.normal(size=tuple(p.shape)), p.type.dtype)  # type: ignore[arg-type]
            for p in self.params[len(self.function.params) :]
        }

    def interpreted(self, values: Mapping[str, Array], float64: bool) -> list[Array]:
        """The results in NumPy."""
        named = {str(n): node for n, node in enumerate(self.results)}
        with np.errstate(all="ignore"):
            found = interpret(Graph("derivative", tuple(self.params), named), values, None, float64)
        return [found[name] for name in named]

    def renamed(self, prefix: str) -> tuple[list[Node], dict[str, Node]]:
        """Parameters and results under names that no other case has."""
        new = {p: build.param(prefix + name_of(p), p.type.dtype, p.shape) for p in self.params}
        found = substituted(self.results, new)
        return list(new.values()), {f"{prefix}y{n}": node for n, node in enumerate(found)}


@dataclass(frozen=True, eq=False)
class Case:
    """A function in some types and the same in f64, at values that are rounded to the types."""

    name: str
    own: Derivative
    wide: Derivative
    values: Mapping[str, Array]

    def widened(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Values for the function in f64."""
        types = {name_of(p): p.type.dtype for p in self.wide.params}
        return {name: numeric.convert(a, types[name]) for name, a in values.items()}


def of_sample(name: str, number: int, sample: Sample) -> Case:
    """A sample of an operation in its own types, away from corners."""
    about = f"{name}-{number}: {', '.join(map(str, sample.inputs))} {dict(sample.attributes)}"
    wide = widened(sample)
    own, twin = (Derivative(Function(*applied(name, one))) for one in (sample, wide))
    return _rounded(about, own, twin, drawn(wide, number))


def of_control(name: str, form: Control, wide: Control) -> Case:
    """A form of control, and the same in f64."""
    own, twin = (Derivative(Function(one.params, one.outputs)) for one in (form, wide))
    return _rounded(name, own, twin, wide.values)


def _rounded(name: str, own: Derivative, wide: Derivative, values: Mapping[str, Array]) -> Case:
    types = {name_of(p): p.type.dtype for p in own.function.params}
    return Case(name, own, wide, {n: numeric.convert(values[n], t) for n, t in types.items()})


def check(cases: Sequence[Case], target: str) -> Iterator[str]:
    """Compiles the derivatives of all cases as one program; what is wrong with those that it gives
    in two random directions.
    """
    params: list[Node] = []
    outputs: dict[str, Node] = {}
    for number, case in enumerate(cases):
        mine, found = case.own.renamed(f"c{number}_")
        params += mine
        outputs |= found
    backend = find(target)
    model = Model(Graph("derivatives", tuple(params), outputs), {})
    compiled = executable(lower(model, backend.target(Request(threads=1))), backend)
    for direction in range(DIRECTIONS):
        given = [{**case.values, **case.own.drawn(direction)} for case in cases]
        named = {f"c{n}_{k}": a for n, one in enumerate(given) for k, a in one.items()}
        results = compiled(**named)
        found = results if isinstance(results, dict) else {next(iter(outputs)): results}
        for number, (case, values) in enumerate(zip(cases, given, strict=True)):
            mine = [np.asarray(found[f"c{number}_y{n}"]) for n in range(len(case.own.results))]
            yield from (f"{case.name}: {wrong}" for wrong in differs(case, mine, values))


def differs(case: Case, found: Sequence[Array], values: Mapping[str, Array]) -> Iterator[str]:
    """Where results are not those in f64, which are asserted to be those of differences."""
    wide = case.widened(values)
    exact = case.wide.interpreted(wide, True)
    lost = case.own.interpreted(values, False)
    count = len(case.wide.values)
    if all(p.type.dtype in (DType.F32, DType.F64) for p in case.own.wrt):
        inputs = tuple(case.wide.function.params)
        function = Graph("value", inputs, {str(n): o for n, o in enumerate(case.wide.values)})
        known = {name_of(p): wide[name_of(p)] for p in inputs}
        moves = {name_of(p): wide[f"t{n}"] for n, p in enumerate(case.wide.wrt)}

        def evaluated(given: Mapping[str, Array]) -> list[Array]:
            with np.errstate(all="ignore"):
                return list(interpret(function, given, None, True).values())

        differ(evaluated, known, moves, exact[:count], 2e-6)
        weights = [wide[f"w{n}"] for n in range(count)]
        paired(exact[:count], weights, exact[count:], list(moves.values()))
    for n, (a, b, c) in enumerate(zip(found, exact, lost, strict=True)):
        if wrong := difference(a, np.asarray(b), np.asarray(c)):
            yield f"{'change' if n < count else 'gradient'} {n}: {wrong}"


def difference(found: Array, exact: Array, lost: Array) -> str:
    """How a result differs from the exact one by more than its type accounts for, or nothing.

    What NumPy loses by computing in the same type says how much rounding costs here.
    """
    if found.shape != exact.shape or found.dtype != lost.dtype:
        return f"{found.dtype}{list(found.shape)}, expected {lost.dtype}{list(exact.shape)}"
    relative, absolute = TOLERANCE[DType.of(found.dtype)]
    a, b, c = (x.astype(np.float64) for x in (found, exact, lost))
    judged = np.isfinite(b) & np.isfinite(c)  # elsewhere a half may overflow, where f64 does not
    a, b, c = a[judged], b[judged], c[judged]
    if not a.size:
        return ""
    loss, size = np.abs(c - b), np.abs(b)
    allowed = relative * size + absolute * max(1.0, np.quantile(size, 0.9))
    allowed += LOST * np.maximum(loss, np.quantile(loss, 0.9))
    wrong = ~(np.abs(a - b) <= allowed)
    if not wrong.any():
        return ""
    worst = int(np.argmax(np.where(wrong, np.abs(a - b) / allowed, 0.0)))
    told = f"{a[worst]}, expected {b[worst]}, NumPy's {c[worst]}"
    return f"{int(wrong.sum())} of {wrong.size} wrong: {told}"
