"""`xlac.verify`: a compiled program against the meaning of its model, and against other engines."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xlac.debug.errors.approximation import Approximation
from xlac.debug.profile import place
from xlac.debug.verify.deviation import deviation
from xlac.debug.verify.draws import DRAWS
from xlac.debug.verify.engines import ENGINES, EngineUnavailable
from xlac.debug.verify.exact import chain, estimated
from xlac.debug.verify.nodes import GroupJudge, JudgedNode
from xlac.debug.verify.subject import VerifiedProgram, ran
from xlac.debug.verify.verification import Verification, VerifiedValue
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.options import CompileOptions
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import chosen

REFERENCE = "reference"
LARGE = 2e8  # operations of a call from which on only random inputs are drawn unless asked for
Inputs = Mapping[str, Array]
Tell = Callable[[str], None]


def verify(
    source: object,
    target: str = "cpu",
    *,
    against: Sequence[str] = (REFERENCE,),
    inputs: Mapping[str, Inputs] | Inputs | None = None,
    draws: Sequence[str] | None = None,
    seed: int = 0,
    taps: bool = True,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    threads: int | None = None,
    cpu: str = "",
    precision: str = "",
    allow_kernels: bool | None = None,
) -> Verification:
    """Compiles a model, runs it, and judges every value by the bounds of docs/SPEC.md.

    `source` is what `xlac.compile` takes, `against` names engines: "reference" is the meaning in
    float64, and "onnxruntime", "torch" and "jax" are used where they are installed. `inputs` are
    arrays by name, or several such by a name of their own; beside them inputs are drawn as `draws`
    says ("random", "large", "tiny", "special", "ties", "zeros"), all of them by default where a
    call is small. With `taps` every value that a group of nodes leaves is judged for what the group
    read. Sizes that are open are at their `opt`, or as `dims` says.

    Returns a `Verification`, whose `right` is the verdict. Raises SourceError for an engine or a
    draw that there is not, and what `xlac.compile` raises.
    """
    options = CompileOptions(
        dims or {}, params or {}, threads=threads, cpu=cpu, precision=precision
    )
    model = specialized(
        load(source, dims=options.dims, params=options.params, precision=options.precision)
    )
    model = replace(model, allow_kernels=allow_kernels)
    backend = find(target)
    file = Path(source) if isinstance(source, str | os.PathLike) else None
    begun = time.perf_counter()
    program = VerifiedProgram.of(model, backend.target(options.request), backend, taps)
    drawn = drawings(program, _sets(inputs), draws, seed)
    return verified(program, drawn, against, file, begun=begun)


def verified(
    program: VerifiedProgram,
    drawn: Mapping[str, Inputs],
    against: Sequence[str],
    source: Path | None,
    tell: Tell = lambda line: None,
    begun: float | None = None,
) -> Verification:
    """Judges a program for each of some sets of inputs."""
    started = time.perf_counter() if begun is None else begun
    for name in against:
        chosen("engine", name, (REFERENCE, *ENGINES))
    values: list[VerifiedValue] = []
    notes: list[str] = []
    causes: list[str] = []
    if isinstance(program.taps, str):
        notes.append(f"groups are not judged one by one: {program.taps}")
    for draw, inputs in drawn.items():
        tell(f"inputs: {draw}")
        found, said, why = _Draw(program, draw, inputs).judged(against, source)
        values += found
        notes += [n for n in said if n not in notes]
        causes += [c for c in why if c not in causes]
    return Verification(
        program.model.name,
        program.target.name,
        tuple(values),
        tuple(causes),
        tuple(notes),
        time.perf_counter() - started,
    )


def _sets(inputs: Mapping[str, Any] | None) -> dict[str, Inputs]:
    if not inputs:
        return {}
    if all(isinstance(value, Mapping) for value in inputs.values()):
        return dict(inputs)
    return {"given": inputs}


def drawings(
    program: VerifiedProgram,
    given: Mapping[str, Inputs],
    draws: Sequence[str] | None,
    seed: int = 0,
) -> dict[str, Inputs]:
    """Sets of inputs by name: those that are given, inputs that they lack drawn at random, then
    those of the draws. Raises SourceError for a draw that there is not.
    """
    if draws is None:
        small = program.lowered.program.work.flops < LARGE
        draws = () if given else (tuple(DRAWS) if small else ("random",))
    types = {param(node).name: node.type for node in program.model.inputs}
    found: dict[str, Inputs] = {}
    for name, arrays in given.items():
        generator = np.random.default_rng(seed)
        strange = [n for n in arrays if n not in types]
        if strange:
            problem = f"inputs '{name}': the model has no input '{strange[0]}'"
            raise SourceError(Diagnostic("XL6001", problem, hint=f"it has {', '.join(types)}"))
        found[name] = {
            n: np.asarray(arrays[n])
            if n in arrays
            else DRAWS["random"](t.dtype, t.shape, generator)  # type: ignore[arg-type]
            for n, t in types.items()
        }
    for name in draws:
        chosen("draw", name, tuple(DRAWS))
        generator = np.random.default_rng(seed)
        found[name] = {
            n: DRAWS[name](t.dtype, t.shape, generator)  # type: ignore[arg-type]
            for n, t in types.items()
        }
    return found


class _Draw:
    """A program judged for one set of inputs."""

    def __init__(self, program: VerifiedProgram, draw: str, inputs: Inputs) -> None:
        self.program, self.draw = program, draw
        self.inputs = {**inputs, **program.states()}
        self.notes: list[str] = []
        self.causes: list[str] = []

    def judged(
        self, against: Sequence[str], source: Path | None
    ) -> tuple[list[VerifiedValue], list[str], list[str]]:
        """Every comparison, remarks and causes."""
        found = ran(self.program.compiled, self.inputs)
        model = self.program.model
        exact = estimated(model.graph, self.inputs, model.weights)
        outputs = list(self._outputs(found, exact)) if REFERENCE in against else []
        nodes = list(self._nodes(found, exact)) if self.program.with_taps is not None else []
        values = [*nodes, *self._weighed(outputs, nodes)]
        for name in against:
            if name != REFERENCE:
                values += self._engine(name, source, found, exact, REFERENCE not in against)
        return values, self.notes, self.causes

    def _outputs(
        self, found: Mapping[str, Array], exact: Mapping[str, Approximation]
    ) -> Iterator[VerifiedValue]:
        for slot in self.program.lowered.program.outputs:
            if slot.name in exact:
                off = deviation(found[slot.name], exact[slot.name], slot.dtype)
                node = self.program.model.graph.outputs[slot.name]
                where = place([node.origin]) if node.origin else ""
                yield VerifiedValue(self.draw, slot.name, REFERENCE, off, where)

    def _nodes(
        self, found: Mapping[str, Array], exact: Mapping[str, Approximation]
    ) -> Iterator[VerifiedValue]:
        """Every group's values, and whether what is between groups, and before them, is right."""
        program = self.program
        again, left = program.tapped_run(self.inputs)
        for name, array in found.items():
            if not same_bits(array, again[name]):
                self.causes.append(
                    f"output '{name}' of the program is not that of the same kernels with copies "
                    "between them: a race, or code in the cache that is not this program's"
                )
        lowered = program.lowered
        judge = GroupJudge(lowered, self.inputs, left, program.promise)
        graph = lowered.partition.graph
        outputs, between = chain(graph, self.inputs, lowered.model.weights, set(left))
        for judged in judge.all():
            yield self._node(judged, left, between)
        for name, node in graph.outputs.items():
            if name in again and not same_bits(again[name], judge.value(node)):
                self.causes.append(
                    f"output '{name}' is not what the last group left: the steps that write it"
                )
        self._passes(outputs, exact)

    def _node(
        self, judged: JudgedNode, left: Mapping[Any, Array], between: Mapping[Any, Array]
    ) -> VerifiedValue:
        inherited = None
        if judged.node in between and judged.node.type.dtype.is_float:
            with np.errstate(all="ignore"):
                apart = np.abs(left[judged.node].astype(np.float64) - between[judged.node])
            inherited = float(np.where(np.isfinite(apart), apart, 0.0).max(initial=0.0))
        return VerifiedValue(
            self.draw,
            judged.name,
            "its inputs",
            judged.own,
            place(judged.places),
            inherited=inherited,
        )

    def _passes(self, outputs: Mapping[str, Array], exact: Mapping[str, Approximation]) -> None:
        """Whether the graph that was lowered means what the user's does."""
        for name, value in outputs.items():
            if name not in exact:
                continue
            off = deviation(value, replace_type(exact[name], value), _type(value))
            if not off.right:
                self.causes.append(f"output '{name}': a pass changed what the graph means ({off})")

    def _weighed(
        self, outputs: list[VerifiedValue], nodes: list[VerifiedValue]
    ) -> Iterator[VerifiedValue]:
        """Outputs are not judged where every node explains what it adds: then errors are inherited
        from rounding that is promised.
        """
        explained = bool(nodes) and not self.causes and all(v.right for v in nodes)
        for value in outputs:
            if not value.right and explained:
                self.notes.append(
                    f"{self.draw}: output '{value.name}' is far from the exact value, but every "
                    "group keeps its bound: the model amplifies rounding"
                )
                value = replace(value, judged=False)
            yield value

    def _engine(
        self,
        name: str,
        source: Path | None,
        found: Mapping[str, Array],
        exact: Mapping[str, Approximation],
        judged: bool,
    ) -> list[VerifiedValue]:
        model: Model = self.program.model
        try:
            theirs = ENGINES[name](model, source, self.inputs)
        except EngineUnavailable as why:
            self.notes.append(f"{name}: {why}")
            return []
        made = []
        for output, array in found.items():
            if output not in theirs or output not in exact:
                continue
            other = theirs[output]
            if other.shape != array.shape:
                other = other.reshape(array.shape) if other.size == array.size else other
            wide = other.astype(np.float64) if _type(array).is_float else other
            room = Approximation(wide, exact[output].error)
            off = deviation(array, room, _type(array))
            if not off.right:
                theirs_off = deviation(other.astype(array.dtype), exact[output], _type(array))
                self.notes.append(
                    f"{self.draw}: {name} on '{output}' is "
                    + ("near the exact value" if theirs_off.right else "itself far from it")
                )
            made.append(VerifiedValue(self.draw, output, name, off, judged=judged))
        return made


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal to the bit; any NaN is as any other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.tobytes() == b.tobytes():
        return True
    with np.errstate(all="ignore"):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def replace_type(meant: Approximation, value: Array) -> Approximation:
    """The meaning in the type of a value in float64."""
    floats = value.dtype == np.float64
    return Approximation(meant.value.astype(np.float64) if floats else meant.value, meant.error)


def _type(array: Array) -> DType:
    return DType.of(array.dtype)
