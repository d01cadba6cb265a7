"""docs/STABLEHLO.md lists what the table has, and the dialect's operations are all in it or
refused.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from xlac.frontends.stablehlo.coverage import renewed
from xlac.frontends.stablehlo.table import REFUSED, TABLE

ROOT = Path(__file__).parents[2]


def test_the_list_is_current() -> None:
    text = (ROOT / "docs/STABLEHLO.md").read_text(encoding="utf-8")
    assert text == renewed(text), "run make docs"


def test_every_operation_of_the_dialect_is_built_or_refused() -> None:
    dialect = yaml.safe_load((ROOT / "tests/ops/stablehlo_coverage.yaml").read_text())
    missing = [name for name in dialect if name not in TABLE and name not in REFUSED]
    assert missing == ["return"]  # which the importer reads itself


def test_nothing_is_built_and_refused() -> None:
    assert not TABLE.keys() & REFUSED.keys()
