"""Test cases for a spec's hand-written kernels: each is compared with its reference graph, at sizes
that its declaration admits, on random and on special values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

from xlac.driver import agreed, lower
from xlac.hand_written.agreement import FACT
from xlac.ir.types import Type
from xlac.model import Model
from xlac.spec.declared_ops import DeclaredOps
from xlac_sdk.backend import Backend
from xlac_sdk.conformance.case import Outcome, without
from xlac_sdk.source import Diagnostic, SourceError, XlacError
from xlac_sdk.target import Request, Target

# values for the sizes named in a declaration, in order, the last one for all further names; and for
# *S
DRAWS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1,), (1,)),
    ((3, 7, 5, 2), ()),
    ((2,), (3,)),
    ((8, 16, 4), (2, 5)),
    ((65, 33, 17, 9), (4, 3)),
)


def kernel_outcomes(
    file: Path, backend: Backend, request: Request
) -> list[tuple[str, Iterator[Outcome]]]:
    """Each operation that has a kernel for the target, with the outcomes of its cases as they
    finish.

    The kernels are compiled and run. Raises SourceError for a spec that cannot be read or has no
    kernel for the target.
    """
    target = backend.target(request)
    declared = DeclaredOps.read(file)
    names = [name for name in declared.names if target.name in declared.kernels.get(name, ())]
    if not names:
        problem = f"no operation of {file.name} has a kernel for {target.name}"
        raise SourceError(Diagnostic("XL3033", problem, declared.place(declared.names[0])))
    return [(name, _outcomes(declared, name, backend, target)) for name in names]


def _outcomes(
    declared: DeclaredOps, name: str, backend: Backend, target: Target
) -> Iterator[Outcome]:
    refused = ""
    met = False
    for types in _types(declared, name):
        case = f"{name}({', '.join(map(str, types))})"
        try:
            graph = declared.alone(name, types, {})
        except XlacError as error:  # sizes that the declaration or its reference graph refuses
            refused = error.diagnostics[0].message
            continue
        met = True
        if why := without(target, {node.type.dtype for node in graph.nodes()}):
            yield Outcome(name, case, "left out", why)
            continue
        try:
            lowered = agreed(lower(Model(graph, {}, allow_kernels=True), target), backend)
        except XlacError as error:
            yield Outcome(name, case, "failed", str(error))
            continue
        (fact,) = lowered.program.facts[FACT]
        why = fact["not compared"]
        yield Outcome(name, case, "unsupported" if why else "passed", why)
    if not met:
        yield Outcome(name, name, "unsupported", refused or "no sizes are tried that it takes")


def _types(declared: DeclaredOps, name: str) -> Iterator[list[Type]]:
    """The sets of operand types that an operation may take."""
    known: set[tuple[Type, ...]] = set()
    for sizes, shape in DRAWS:
        operands = declared.types(name, chain(sizes, repeat(sizes[-1])), shape, {})
        if tuple(operands) not in known:
            known.add(tuple(operands))
            yield operands
