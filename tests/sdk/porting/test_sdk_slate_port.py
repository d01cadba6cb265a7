"""A port that docs/PORTING.md leads to: short, and right on the kit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import slate_port
from slate_port import SlateBackend

from xlac_sdk.conformance import ConformanceCase, cases, check
from xlac_sdk.target import Request

MOST = 150  # lines of a port, that are not empty
TARGET = SlateBackend().target(Request())
CASES = [*cases(TARGET)]


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.sampled(24)
def test_the_port_conforms(case: ConformanceCase) -> None:
    outcomes = check(case, SlateBackend(), TARGET)
    wrong = [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not wrong, "\n".join(wrong)


def test_it_is_short() -> None:
    text = Path(slate_port.__file__).read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in text.splitlines()) <= MOST
