"""Samples of every operation, exported, give what ours give; what ONNX Runtime lacks is listed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_runs import run

from xlac.debug.conformance import OperationCase, cases, difference, model_of
from xlac.exporters.onnx import proto
from xlac.ir.op import OPS
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType

onnx = pytest.importorskip("onnx")

ALL = bool(os.environ.get("XLAC_EXPORT_ALL"))
SOME = 2  # samples of each operation that `make test` runs
LISTED = Path(__file__).with_name("onnx_unsupported.txt")
pytestmark = pytest.mark.filterwarnings("ignore")


def compared(chosen: list[OperationCase]) -> str:
    """Exports a model of some cases and runs it. Gives the reason that ONNX Runtime did not."""
    model, given, expected = model_of(chosen)
    made = proto(model)
    onnx.checker.check_model(made)
    found, why = run(made, given)
    for name, want in expected.items():
        got = (
            found[name].astype(want.dtype) if found[name].dtype.name == "bfloat16" else found[name]
        )
        case = chosen[int(name[3:].split("_")[0])]
        assert not (wrong := difference(got, want, case.bound)), f"{case.name}: {wrong}"
    return why


KNOWN = {
    "custom_call": "only who wrote the function knows it",
    "rng_bits": "ONNX draws random numbers by no rule",
    "erf f64": "ONNX's evaluator computes it in f32, and ONNX Runtime has none",
    "gelu f64": "by erf",
    "gelu_exact f64": "by erf",
    "gelu_slope f64": "by erf",
    "erfc f64": "by erf",
    "dropout f64": "",
    **dict.fromkeys(
        (f"{name} -inf" for name in ("gelu", "gelu_exact", "gelu_slope")),
        "0 times infinity is NaN in ONNX's formula",
    ),
}


def is_known(name: str, case: OperationCase) -> bool:
    if f"{name} -inf" in KNOWN and any(np.isneginf(x).any() for x in case.inputs):
        return True
    return name in KNOWN or any(f"{name} {t.dtype}" in KNOWN for t in case.sample.inputs)


@pytest.mark.parametrize("name", sorted(OPS))
def test_samples(name: str) -> None:
    found = [c for c in cases(OPS[name]) if not is_known(name, c)]
    plain = [c for c in found if all(a.dtype.name != "bfloat16" for a in (*c.inputs, *c.expected))]
    if plain:
        compared(plain if ALL else plain[:: max(1, len(plain) // SOME)][:SOME])
    for case in [c for c in found if c not in plain] if ALL else ():
        compared([case])


@pytest.mark.skipif(not ALL, reason="make test-export runs every sample by itself")
def test_what_onnx_runtime_cannot_run_is_listed(golden: Any) -> None:
    lines = [
        f"{name}: not exported, {why}" if name in OPS else f"{name}: {why}"
        for name, why in KNOWN.items()
        if why
    ]
    for name in sorted(OPS):
        for case in cases(OPS[name]):
            if not is_known(name, case) and (why := compared([case])):
                types = ", ".join(
                    dict.fromkeys(
                        str(t.dtype)
                        for t in (
                            *case.sample.inputs,
                            *(Type(DType.of(a.dtype)) for a in case.expected),
                        )
                    )
                )
                lines.append(f"{name} of {types}: {why}")
    golden.check_file(LISTED, "".join(f"{line}\n" for line in dict.fromkeys(lines)))
