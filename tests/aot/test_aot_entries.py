"""Artefacts of specs that train, called from Python without the compiler: entries, state and
settings, as the manifest tells them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packages import SPECS, build

import xlac
import xlac_runtime
from xlac.cli import status
from xlac_sdk.host import manifest, manifest_facts
from xlac_sdk.source import SourceError

BATCH = 16
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("entries") / "out" / "digits_train"
    return build("digits_train", folder, "--dim", f"batch={BATCH}")


@pytest.fixture(scope="module")
def batches() -> list[dict[str, np.ndarray]]:
    with np.load(SPECS / "data" / "digits_train.npz") as data:
        image, label = data["image"].astype(np.float32), data["label"].astype(np.int32)
    return [
        {"image": image[n : n + BATCH], "label": label[n : n + BATCH]} for n in range(0, 96, BATCH)
    ]


def same(one: Any, other: Any) -> bool:
    """Whether two states have the same tensors to the bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize("load", [xlac.load, xlac_runtime.load])
def test_entries_are_called_over_one_state(load: Any, made: Path, batches: Any) -> None:
    model = load(made)
    trainer = xlac.trainer(SPECS / "digits_train.yaml", dims={"batch": BATCH})
    assert [*model.entries] == ["step", "evaluate"] and model.state.settings == ("lr", "length")
    step = repr(model.entries["step"])
    assert "label: i32[" in step and ") -> loss: f32[], accuracy: f32[]>" in step
    assert repr(model).endswith("digits_train(image: f32[16, 64]) -> probs: f32[16, 10]; cpu>")
    with pytest.raises(SourceError, match="XL6030"):
        model.entries["step"](**batches[0])
    trainer.set_length(100)
    model.state.set_number("length", 100)
    for batch in batches[:3]:
        assert model.entries["step"](**batch) == trainer.step(**batch)
    trainer.set_rate(0.1 / 7)
    model.state.set_number("lr", 0.1 / 7)
    for batch in batches[3:]:
        assert model.entries["step"](batch["image"], batch["label"]) == trainer.step(**batch)
    assert same(model.state.copy(), trainer.state())
    assert model.entries["evaluate"](**batches[0]) == trainer.evaluate(**batches[0])
    np.testing.assert_array_equal(model(batches[0]["image"]), trainer(image=batches[0]["image"]))


def test_a_checkpoint_is_all_tensors(made: Path, batches: Any) -> None:
    model = xlac_runtime.load(made)
    first = model.state.copy()
    model.state.set_number("length", 100)
    losses = [float(model.entries["step"](**batch)["loss"]) for batch in batches[:2]]
    kept = model.state.copy()
    losses += [float(model.entries["step"](**batch)["loss"]) for batch in batches[2:]]
    model.reset()
    assert same(model.state.copy(), first) and first["h1.weight"].any()
    other = xlac_runtime.load(made)
    other.state.update(kept)
    assert [float(other.entries["step"](**batch)["loss"]) for batch in batches[2:]] == losses[2:]
    assert other.state["optimizer.step"] == len(batches)


def test_mistakes_are_told_and_change_nothing(made: Path, batches: Any) -> None:
    model = xlac_runtime.load(made)
    first = model.state.copy()
    bias = first["h1.bias"]
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: model.entries["step"](image=batches[0]["image"]), r"'label' is missing.*XL6001"),
        (lambda: model.entries["step"](batches[0]["image"], bias), "XL6002"),
        (lambda: model.state["h1.bia"], r"h1.bia.*XL6001"),
        (lambda: model.state.update({"h1.bias": bias + 1, "h1.weight": bias}), "tensor.*XL6003"),
        (lambda: model.state.update({"h1.bias": bias.astype(np.float64)}), "tensor.*XL6002"),
        (lambda: model.state.set_number("lrr", 1.0), r"lrr.*XL6001"),
    ]
    for call, told in calls:
        with pytest.raises(SourceError, match=told):
            call()
        assert same(model.state.copy(), first)
    model.state.set_number("length", 100)
    model.entries["step"](**batches[0])
    before = model.state.copy()
    with pytest.raises(SourceError, match="XL6031"):
        model.entries["step"](batches[0]["image"] * np.float32(np.nan), batches[0]["label"])
    assert same(model.state.copy(), before)


def test_one_step_on_the_command_line(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["run", str(made), "--entry", "step"]) == 2
    assert "--number length=1000" in capsys.readouterr().err
    step = ("--entry", "step", "--number", "length=10", "-i", "image=ones", "-i", "label=ones")
    told = []
    spec = ("run", str(SPECS / "digits_train.yaml"), "--dim", f"batch={BATCH}")
    for command in (("run", str(made)), spec):
        assert status([*command, *step]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] and "loss: float32[]" in told[0]
    nan = ("-i", "image=nan", "--entry", "step", "--number", "length=10")
    for command in (("run", str(made)), spec):
        assert status([*command, *nan, "-i", "label=ones"]) == 2
        assert "XL6031" in capsys.readouterr().err
    assert status(["run", str(SPECS / "digits.yaml"), "--entry", "step"]) == 3
    assert "no section `train`" in capsys.readouterr().err


def _changed(folder: Path, change: Change) -> None:
    file = folder / manifest.NAME
    facts = json.loads(file.read_text())
    facts.pop("sha256")
    change(facts)
    file.write_text(json.dumps({**facts, "sha256": manifest_facts.digest(facts)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(format=2),
        lambda m: m["entries"]["state"][0].update(offset=m["memory"]["state"]),
        lambda m: m["entries"]["state"][0].update(offset=1),
        lambda m: m["entries"]["state"][0].update(bytes=4),
        lambda m: m["entries"]["functions"][0].update(needs="h1.weight"),
        lambda m: m["entries"]["functions"][0].update(name="evaluate"),
        lambda m: m["entries"]["functions"][0].update(name="step(") or None,
        lambda m: m["entries"]["settings"][0]["stores"][0].update(tensor="nowhere"),
        lambda m: m["entries"]["settings"][0]["stores"][0].update(factor="1.0"),
        lambda m: m.update(entries=None),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(
    change: Change, made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for file in made.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    _changed(folder, lambda facts: None)
    assert xlac_runtime.load(folder).entries
    _changed(folder, change)
    with pytest.raises(SourceError, match="XL3013"):
        xlac_runtime.load(folder)


def test_an_entry_that_the_library_lacks_is_told(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for file in made.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    _changed(folder, lambda m: m["entries"]["functions"][0].update(name="leap"))
    with pytest.raises(SourceError, match=r"digits_train_leap.*XL5024"):
        xlac_runtime.load(folder)


def test_artefacts_without_entries_are_written_and_read_as_before(tmp_path: Path) -> None:
    made = build("digits", tmp_path / "out", "--dim", "batch=1")
    facts = json.loads((made / manifest.NAME).read_text())
    assert facts["format"] == 2 and "entries" not in facts
    model = xlac_runtime.load(made)
    assert not model.entries and not model.state.names


def test_what_the_chapter_shows_runs(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (SPECS.parent / "docs" / "CALLING.md").read_text()
    (snippet,) = (
        p for p in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "xlac_runtime" in p
    )
    folder = made.parents[1]
    (folder / "specs").symlink_to(SPECS)
    monkeypatch.chdir(folder)
    found: dict[str, Any] = {}
    exec(snippet, found)  # noqa: S102 - the chapter's own code
    assert found["results"]["loss"] > 2 and found["checkpoint"]["h1.weight"].any()
