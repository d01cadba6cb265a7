"""61 programs that JAX wrote, as text and as portable bytecode, against the results that JAX
computed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xlac.api import compile
from xlac.frontends.stablehlo import load
from xlac.ir.op import Array

CORPUS = Path(__file__).parent / "corpus"
META: dict[str, Any] = json.loads((CORPUS / "meta.json").read_text())


def array(stored: Array, dtype: str) -> Array:
    """NumPy files keep bfloat16 as its bits; a complex array goes in as its parts along a last
    axis.
    """
    found = stored.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else stored
    return (
        found.view(found.real.dtype).reshape(*found.shape, 2) if found.dtype.kind == "c" else found
    )


def check(name: str, suffix: str) -> None:
    known, data = META[name], np.load(CORPUS / f"{name}.npz")
    inputs = [
        array(data[f"in_{n}"], known["in_dtypes"][n]) for n in known["kept"] or range(known["n_in"])
    ]
    wanted = [array(data[f"out_{n}"], dtype) for n, dtype in enumerate(known["out_dtypes"])]
    found = compile(load(CORPUS / f"{name}{suffix}"), target="cpu")(*inputs)
    results = list(found.values()) if isinstance(found, dict) else [found]
    # XLA may keep more digits between operations than bfloat16 has; programs on it agree to its
    # last place
    loose = "bfloat16" in known["in_dtypes"]
    for a, b in zip(results, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
            continue
        tolerance = 8e-3 if loose else 2e-3 if b.dtype.itemsize == 2 else 1e-5
        exact = b.astype(np.float64)
        largest = float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
        np.testing.assert_allclose(a.astype(np.float64), exact, tolerance, tolerance * largest)


@pytest.mark.parametrize("name", META)
@pytest.mark.sampled(40)
def test_text(name: str) -> None:
    check(name, ".mlir")


@pytest.mark.parametrize("name", META)
def test_bytecode(name: str) -> None:
    pytest.importorskip("jaxlib.mlir")
    check(name, ".mlirbc")
