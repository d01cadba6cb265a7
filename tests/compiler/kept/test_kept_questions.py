"""Another question is another entry: other options, texts, weights, compilers or machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept_models import ROW, SPEC, settle, weights

import xlac
from xlac.cache import compilations, fingerprint
from xlac.support import dependencies


@pytest.mark.parametrize(
    "other",
    [
        {"dims": {"n": 3}},
        {"params": {"scale": 2.0}},
        {"threads": 2},
        {"cpu": "x86-64-v3"},
        {"target": "c"},
    ],
)
def test_another_question_is_another_entry(
    spec: Path, compiled: list[object], other: dict[str, Any]
) -> None:
    xlac.compile(spec, dims={"n": 2})
    xlac.compile(spec, **{"dims": {"n": 2}, **other})
    assert len(compiled) == 2


def test_another_text_is_compiled_anew(spec: Path, compiled: list[object]) -> None:
    before = xlac.compile(spec, dims={"n": 2})(ROW)
    spec.write_text(SPEC.replace("h * $scale", "h * $scale * 2.0"))
    np.testing.assert_allclose(xlac.compile(spec, dims={"n": 2})(ROW), 2 * before)
    assert len(compiled) == 2


def test_other_weights_are_compiled_anew(spec: Path, compiled: list[object]) -> None:
    before = xlac.compile(spec, dims={"n": 2})(ROW)
    weights(spec.parent, 1)
    assert not np.allclose(xlac.compile(spec, dims={"n": 2})(ROW), before)
    assert len(compiled) == 2


def test_large_files_count_by_size_and_times(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependencies, "HASHED", 0)
    settle(spec)
    xlac.compile(spec, dims={"n": 2})
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 1
    weights(spec.parent, 1)  # of the same size
    monkeypatch.setattr(dependencies, "TICK", 1 << 62)  # however slow the machine is
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 2
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 3, (
        "a file written to just now may be written to again, and look the same"
    )


def test_every_version_of_the_weights_has_its_entry(spec: Path, compiled: list[object]) -> None:
    for seed in (0, 1, 0, 1, 1):
        weights(spec.parent, seed)
        xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 2


def test_another_compiler_or_machine_asks_anew(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    xlac.compile(spec, dims={"n": 2})
    for what in ("compiler", "machine"):
        with monkeypatch.context() as other:
            other.setattr(compilations, what, lambda *_: "another")
            xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 3


def test_a_changed_installation_is_another_compiler(tmp_path: Path) -> None:
    """Files that came, went or changed are seen, whatever Python keeps of them is not."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "one.py").write_text("1")
    seen = [sorted(fingerprint._files(str(tmp_path)))]
    for change in (
        lambda: (tmp_path / "inside" / "one.py").write_text("12"),
        lambda: (tmp_path / "inside" / "one.py").replace(tmp_path / "inside" / "two.py"),
        lambda: (tmp_path / "new.py").write_text(""),
    ):
        change()
        seen.append(sorted(fingerprint._files(str(tmp_path))))
    assert len({tuple(one) for one in seen}) == len(seen)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "new.pyc").write_text("")
    assert sorted(fingerprint._files(str(tmp_path))) == seen[-1]
