"""The kit for backends, and samples of the operations, on other machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from batch import Task, results
from machines import MACHINES, Other

from xlac.debug import conformance
from xlac.driver import lower
from xlac.ops import OPS
from xlac_cpu import BACKEND
from xlac_sdk.conformance.case import ConformanceCase, Tolerance, difference
from xlac_sdk.conformance.run import cases
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.source import UnsupportedError

pytestmark = pytest.mark.timeout(1800)


def test_the_kit_passes(other: Other) -> None:
    target = BACKEND.target(other.request)
    chosen = list(cases(target))
    wrong, ran = [], 0
    for case, got in zip(chosen, results(list(map(_task, chosen)), target, other), strict=True):
        if got is None:  # the emulator's own fault, see batch.FAULT
            continue
        ran += 1
        want = case.expected or _interpreted(case)
        for slot in case.program.outputs:
            detail = difference(
                got[slot.name], want[slot.name], _tolerance(case, other), case.inputs
            )
            wrong += [f"{case.name}: {slot.name}: {detail}"] if detail else []
    assert not wrong, "\n".join(wrong[:20])
    assert ran >= len(chosen) - (8 if other.name == "riscv64-v" else 0)


def _task(case: ConformanceCase) -> Task:
    sizes = of_call(case.program, case.inputs)
    return Task(
        case.program,
        case.inputs,
        case.calls,
        tuple(sizes[symbol.name] for symbol in case.program.sizes),
    )


def _tolerance(case: ConformanceCase, other: Other) -> Tolerance:
    """What a case allows. Without doubles in hardware they are added by libgcc, which for Arm is
    off by one unit where numbers are 2^32 apart (2147483520.0 + -9.223372036854776e18, compiled
    from C by gcc, too)."""
    inputs = {DType.of(array.dtype) for array in case.inputs.values()}
    if other.name == "cortex-m4" and DType.F64 in inputs and case.group in ("add", "sub"):
        return Tolerance(1, case.tolerance.absolute)
    return case.tolerance


def _interpreted(case: ConformanceCase) -> dict[str, object]:
    from xlac_sdk.conformance.run import _run

    return _run(Interpreter(case.program), case)


def test_operations_agree(other: Other, request: pytest.FixtureRequest) -> None:
    """Every fourth operation, others on each machine; every one with --all."""
    target = BACKEND.target(other.request)
    start = MACHINES.index(other)
    names = sorted(OPS) if request.config.getoption("--all") else sorted(OPS)[start % 4 :: 4]
    tasks, wanted = [], []
    for name in names:
        for chosen in _models(name):
            model, given, expected = conformance.model_of(chosen)
            try:
                tasks.append(Task(lower(model, target).program, given))
            except UnsupportedError:
                continue
            wanted.append((chosen, expected))
    wrong = []
    for (chosen, expected), got in zip(wanted, results(tasks, target, other), strict=True):
        if got is None:
            continue
        bounds = [case.bound for case in chosen for _ in case.expected]
        for (name, want), bound in zip(expected.items(), bounds, strict=True):
            detail = conformance.difference(got[name], want, bound)
            wrong += [f"{chosen[0].name}: {name}: {detail}"] if detail else []
    assert not wrong, "\n".join(wrong[:20])
    assert len(wanted) > len(names) // 2


def _models(name: str) -> Iterator[Sequence[conformance.OperationCase]]:
    """The samples of an operation, eight a model, that give arrays."""
    found = list(conformance.cases(OPS[name]))
    for at in range(0, len(found), 8):
        yield found[at : at + 8]
