"""Every broken spec gives exactly the diagnostics beside it, and nothing ever gives a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlac.spec.load import load
from xlac.spec.schema.document import BROKEN as PLACEHOLDER
from xlac_sdk.source import SourceError

ROOT = Path(__file__).parents[2]
BROKEN = ROOT / "specs" / "broken"
SPECS = sorted(p.stem for p in BROKEN.glob("*.yaml"))


def test_there_are_enough() -> None:
    assert len(SPECS) >= 60
    assert {p.stem for p in BROKEN.glob("*.txt")} == set(SPECS), (
        "a golden without a spec, or the other way round"
    )


@pytest.mark.parametrize("name", SPECS)
def test_broken_spec(name: str, golden: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SourceError) as caught:
        load(Path("specs/broken") / f"{name}.yaml")
    assert all(d.span is not None for d in caught.value.diagnostics), "a diagnostic without a place"
    golden.check_file(BROKEN / f"{name}.txt", f"{caught.value}\n")  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", SPECS)
def test_one_is_singular(name: str) -> None:
    """`xlac_sdk.support.counts` gives a count its noun."""
    text = (BROKEN / f"{name}.txt").read_text(encoding="utf-8")
    assert not re.search(r"(?<![\d.,:\[(-])\b1 (?!axis|is|as|has|was|times|plus)[a-z]+s\b", text)


def test_an_expression_that_equals_the_placeholder_of_a_broken_entry_is_one(tmp_path: Path) -> None:
    """The placeholder stands where a reported entry was; a spec's text is never taken for it."""
    file = tmp_path / "zero.yaml"
    file.write_text(f"xlac: 1\nmodel: zero\ngraph:\n  y: {str(PLACEHOLDER)!r}\noutputs: [y]\n")
    assert list(load(file).graph.outputs) == ["y"]
