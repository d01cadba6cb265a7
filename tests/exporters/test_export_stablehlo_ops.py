"""Samples of every operation, exported, give what ours give when XLA compiles them, and when our
own importer reads them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stablehlo_runs import flushed, read_back, run

from xlac.debug.conformance import OperationCase, cases, difference, model_of
from xlac.exporters.stablehlo import text
from xlac.ir.op import OPS

ALL = bool(os.environ.get("XLAC_EXPORT_ALL"))
SOME = 1


def compared(chosen: list[OperationCase], again: Path | None = None) -> None:
    """Exports a model of some cases, runs it, and reads it back where a folder is given."""
    model, given, expected = model_of(chosen)
    module = text(model)
    found = run(module, [given[n.op.name] for n in model.graph.inputs])  # type: ignore[attr-defined]
    for got, (name, want) in zip(found, expected.items(), strict=True):
        case = chosen[int(name[3:].split("_")[0])]
        assert not (wrong := difference(got, want, case.bound)), f"{case.name}: {wrong}"
    if again is not None:
        bounds = [chosen[int(name[3:].split("_")[0])].bound for name in expected]
        read_back(module, model, given, again, bounds)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(set(OPS) - {"custom_call"}))
def test_samples(name: str, tmp_path: Path) -> None:
    found = [flushed(c) for c in cases(OPS[name])]
    if found:
        compared(found if ALL else found[:: max(1, len(found) // SOME)][:SOME], tmp_path)
