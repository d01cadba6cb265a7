"""Ports that docs/PORTING.md leads to: short, right on the kit, of names that it lists."""

from __future__ import annotations

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import board_port
import numpy as np
import pytest
import slate_port
from board_port import BoardBackend
from slate_port import SlateBackend

from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac_sdk.backend import Backend
from xlac_sdk.conformance import ConformanceCase, cases, check
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

MOST = 150  # lines of a port, that are not empty
PORTS = (slate_port, board_port)
CHAPTER = (Path(__file__).parents[3] / "docs" / "PORTING.md").read_text(encoding="utf-8")
CASES = [
    (backend, case)
    for backend in (SlateBackend(), BoardBackend())
    for case in cases(backend.target(Request()))
]


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
@pytest.mark.parametrize(
    "backend, case", CASES, ids=[f"{backend.name}-{case.name}" for backend, case in CASES]
)
@pytest.mark.sampled(64)
def test_a_port_conforms(backend: Backend, case: ConformanceCase) -> None:
    outcomes = check(case, backend, backend.target(Request()))
    wrong = [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not wrong, "\n".join(wrong)


HALVES = [
    (lacking, case)
    for lacking in (DType.F16, DType.BF16)
    for case in cases(SlateBackend().target(Request()))
    if case.group in ("cast", "bitcast", "select", "constants")
]


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
@pytest.mark.parametrize(
    "lacking, case", HALVES, ids=[f"without {d}, {case.name}" for d, case in HALVES]
)
@pytest.mark.sampled(16)
def test_a_language_may_have_one_of_the_half_types(lacking: DType, case: ConformanceCase) -> None:
    target = SlateBackend().target(Request())
    target = replace(target, dtypes=target.dtypes - {lacking})
    wrong = [o.detail for o in check(case, SlateBackend(), target) if o.status != "passed"]
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
def test_a_model_runs_on_a_device_of_few_buffers_without_types_of_64_bits() -> None:
    """As on cpu; its kernels share counters among branches and loops, which the kit's do not."""
    specs = Path(__file__).parents[3] / "specs"
    given = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    results = []
    for backend in (find("cpu"), BoardBackend()):
        target = replace(backend.target(Request()), most_buffers=8)
        compiled = executable(lower(load(specs / "digits.yaml"), target), backend)
        results.append(compiled(given))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("port", PORTS, ids=[port.__name__ for port in PORTS])
def test_a_port_is_short(port: object) -> None:
    text = Path(str(port.__file__)).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert sum(bool(line.strip()) for line in text.splitlines()) <= MOST


@pytest.mark.parametrize("port", PORTS, ids=[port.__name__ for port in PORTS])
def test_the_chapter_says_where_each_name_of_a_port_is(port: object) -> None:
    text = Path(str(port.__file__)).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    imports = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xlac_sdk")
        for alias in node.names
    ]
    rows = [line for line in CHAPTER.splitlines() if line.startswith("| from `xlac_sdk.")]
    named = {row.split("`")[1]: set(row.split("|")[2].replace("`", "").split()) for row in rows}
    missing = [(module, name) for module, name in imports if name not in named.get(module, ())]
    assert imports and not missing
