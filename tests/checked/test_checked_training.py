"""Checked artefacts of specs that train: each entry names the node at fault and its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac_sdk.host import manifest
from xlac_sdk.host.capi import c_compiler
from xlac_sdk.host.capi.library import Library
from xlac_sdk.host.entry_calls import entry_calls
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: small
dims: {batch: {max: 8}}
inputs: {x: "f32[batch, 5]", y: "i32[batch]"}
graph:
  h: {op: linear, in: x, units: 7}
  r: log(relu(h) * 0.0 + x[:, 0:1])
  out: {op: linear, in: r, units: 3}
outputs: [out]
train:
  batch: batch
  init: {seed: 0}
  accumulate: 2
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
"""


def batch(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, (rows, 5)).astype(np.float32)
    return {"x": x, "y": rng.integers(0, 3, rows).astype(np.int32)}


def built(folder: Path, *options: str) -> Path:
    (folder / "small.yaml").write_text(SPEC)
    assert status(["build", str(folder / "small.yaml"), "-o", str(folder / "out"), *options]) == 0
    return folder / "out"


@pytest.mark.long
def test_every_entry_names_the_node_at_fault(tmp_path: Path) -> None:
    model = xlac.load(built(tmp_path, "--dim", "batch=1..8", "--emit", "so,h", "--checked"))
    given, before = batch(8), model.state.copy()
    wrong = {**given, "x": given["x"].copy()}
    wrong["x"][3, 0] = -1.0
    calls: list[Any] = [model.entries[name] for name in ("step", "evaluate", "accumulate")]
    for call in calls:
        with pytest.raises(
            SourceError, match=r"small.yaml:7:6: r: NaN appears .*element 21.*XL6022"
        ):
            call(**wrong)
    with pytest.raises(SourceError, match="XL6022"):
        model(x=wrong["x"])
    weights = [name for name in before if name.startswith(("h.", "out."))]
    assert weights and all(np.array_equal(model.state[n], before[n]) for n in weights)
    model.state.update(before)
    assert model.entries["step"](**given)["loss"] > 0  # a call that is right has no old record
    labelled = {**given, "y": given["y"].copy()}
    labelled["y"][5] = 9
    with pytest.raises(SourceError, match=r"train.loss: .*value 9.*XL6020"):
        model.entries["evaluate"](**labelled)
    assert model(x=given["x"]).shape == (8, 3)


@pytest.mark.long
def test_the_c_file_has_the_steps_with_and_without_checks(tmp_path: Path) -> None:
    folder = built(tmp_path, "-t", "c", "--checked")
    artefact = manifest.read(folder).artefact(folder, False)

    def entries(*flags: str) -> dict[str, Any]:
        made = tmp_path / f"small{len(flags)}.so"
        shared = (*c_compiler.SHARED, *flags)
        library = Library(c_compiler.compiled(folder / "small.c", made, *shared), artefact.program)
        return entry_calls(artefact.program, library)

    checked, plain = entries("-DSMALL_CHECKED"), entries()
    for _ in range(2):
        assert checked["step"](**batch(8)) == plain["step"](**batch(8))
    wrong = batch(8)
    wrong["x"][0, 0] = -1.0
    with pytest.raises(SourceError, match=r"small.yaml:7:6: r: NaN appears .*element 0.*XL6022"):
        checked["step"](**wrong)
    with pytest.raises(SourceError, match="XL6031"):
        plain["step"](**wrong)
