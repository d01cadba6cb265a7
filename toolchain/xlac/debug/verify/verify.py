"""`xlac.verify`: a compiled program against the exact results of its model, and other engines."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xlac.debug.compare import ComparedModel
from xlac.debug.verify.draws import DRAWS
from xlac.debug.verify.each import each_rewrite
from xlac.debug.verify.engines import ENGINES
from xlac.debug.verify.judge import REFERENCE, DrawJudge
from xlac.debug.verify.search import worst_inputs
from xlac.debug.verify.subject import VerifiedProgram
from xlac.debug.verify.verification import Verification, VerifiedValue
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.options import CompileOptions
from xlac_sdk.host.registry import find
from xlac_sdk.source import Diagnostic, SourceError, VerifyError
from xlac_sdk.support.choices import chosen
from xlac_sdk.target import Target

LARGE = 2e8  # operations of a call from which on only random inputs are drawn by default
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
    each: bool = False,
    search: int = 0,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    threads: int | None = None,
    cpu: str = "",
    precision: str = "",
    allow_kernels: bool | None = None,
) -> Verification:
    """Compiles a model, runs it, and judges every value by the bounds of docs/SPEC.md.

    `source` is what `xlac.compile` takes. `against` names engines: "reference" computes exact
    results in float64; "onnxruntime", "torch" and "jax" are used where they are installed. `inputs`
    are arrays by name, or several such sets, each with a name. `draws` adds sets of inputs
    ("random", "large", "tiny", "special", "ties", "zeros"); by default all of them where a call is
    small and no inputs are given. With `taps` every value that a group of nodes writes is judged
    for the values that the group read. With `each` the graph is checked after every single rewrite.
    `search` is the number of hill climbing steps that look for the worst inputs. Open sizes have
    their `opt`, or the values in `dims`.

    Returns a `Verification`, whose `right` is the verdict. Raises SourceError for an unknown engine
    or draw, and the errors of `xlac.compile`.
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
    facts = backend.target_for(options.request)
    try:
        program = VerifiedProgram.of(model, facts, backend, taps)
    except VerifyError as error:
        return unsound(model, facts, error)
    small = program.lowered.program.work.flops < LARGE
    drawn = drawings(model, _sets(inputs), draws, small, seed)
    asked = Extra(each, search, seed)
    return verified(program, drawn, against, file, begun=begun, extra=asked)


@dataclass(frozen=True, slots=True)
class Extra:
    """What is verified beside drawn inputs: `each` rewrite, and the worst inputs that so many steps
    of `search` find.
    """

    each: bool = False
    search: int = 0
    seed: int = 0


def verified(
    program: VerifiedProgram,
    drawn: Mapping[str, Inputs],
    against: Sequence[str],
    source: Path | None,
    tell: Tell = lambda line: None,
    begun: float | None = None,
    extra: Extra | None = None,
) -> Verification:
    """Judges a program for each set of inputs."""
    started = time.perf_counter() if begun is None else begun
    for name in against:
        chosen("engine", name, (REFERENCE, *ENGINES))
    values: list[VerifiedValue] = []
    notes: list[str] = []
    causes: list[str] = []
    if isinstance(program.taps, str):
        notes.append(f"groups are not judged one by one: {program.taps}")
    asked = extra or Extra()
    drawn = dict(drawn)
    if asked.search and program.with_taps is None:
        notes.append("worst inputs are not searched for, as groups are not judged one by one")
    if asked.search and program.with_taps is not None:
        start = drawn.get("random") or next(iter(drawn.values()))
        worst, most = worst_inputs(program, start, asked.search, asked.seed, tell)
        drawn["searched"] = worst
        notes.append(f"the worst inputs found take {most:.0%} of a group's bound")
    for draw, inputs in drawn.items():
        tell(f"inputs: {draw}")
        judge = DrawJudge(program, draw, inputs, tell)
        judged_values, said, why = judge.judged(against, source, first=not values)
        values += judged_values
        notes += [n for n in said if n not in notes]
        causes += [c for c in why if c not in causes]
    if asked.each:
        for draw, inputs in drawn.items():
            subject = ComparedModel(program.model, inputs, program.target, program.backend)
            count, culprit = each_rewrite(subject, tell)
            causes += [f"{draw}: {culprit}"] if culprit else []
            notes.append(f"{draw}: each of {count} rewrites was checked")
    return Verification(
        program.model.name,
        program.target.name,
        tuple(values),
        tuple(causes),
        tuple(notes),
        time.perf_counter() - started,
    )


def unsound(model: Model, target: Target, error: VerifyError) -> Verification:
    """The verdict on a program that is invalid, and so is not run."""
    cause = f"the program does not verify: {error}"
    return Verification(model.name, target.name, (), (cause,))


def _sets(inputs: Mapping[str, Any] | None) -> dict[str, Inputs]:
    if not inputs:
        return {}
    if all(isinstance(value, Mapping) for value in inputs.values()):
        return dict(inputs)
    return {"given": inputs}


def drawings(
    model: Model,
    given: Mapping[str, Inputs],
    draws: Sequence[str] | None,
    small: bool,
    seed: int = 0,
) -> dict[str, Inputs]:
    """Sets of inputs by name: the given ones, completed at random, then those of `draws` (by
    default all where a call is `small`). Raises SourceError for an unknown input or draw.
    """
    if draws is None:
        draws = () if given else (tuple(DRAWS) if small else ("random",))
    types = {param(node).name: node.type for node in model.inputs}
    drawn: dict[str, Inputs] = {}
    for name, arrays in given.items():
        generator = np.random.default_rng(seed)
        strange = [n for n in arrays if n not in types]
        if strange:
            problem = f"inputs '{name}': the model has no input '{strange[0]}'"
            raise SourceError(Diagnostic("XL6001", problem, hint=f"it has {', '.join(types)}"))
        drawn[name] = {
            n: np.asarray(arrays[n])
            if n in arrays
            else DRAWS["random"](t.dtype, t.shape, generator)  # type: ignore[arg-type]
            for n, t in types.items()
        }
    for name in draws:
        chosen("draw", name, tuple(DRAWS))
        generator = np.random.default_rng(seed)
        drawn[name] = {
            n: DRAWS[name](t.dtype, t.shape, generator)  # type: ignore[arg-type]
            for n, t in types.items()
        }
    return drawn
