"""A spec that trains as one C file, and as a native library: a step, an evaluation and the model
over one state, equal to xlac.trainer to the bit.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import EXAMPLES, SPECS, WARNINGS, build, needs, run
from c_learner import Learner, flat, pointer

import xlac
from xlac.cli import status

BATCH, STEPS = 4, 20
NULL_POINTER, OUT_OF_BOUNDS, NOT_READY, NOT_FINITE, NO_LENGTH, NO_TENSOR = 1, 4, 7, 11, 12, 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("train") / "out"
    return build("digits_train", made, "--dim", f"batch={BATCH}", "--emit", "c,h")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("native") / "out"
    return build("digits_train", made, "--target", "cpu", "--dim", f"batch={BATCH}")


@pytest.fixture(params=["c", "cpu"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def learner(target: str, request: pytest.FixtureRequest) -> Learner:
    return Learner(request.getfixturevalue("folder" if target == "c" else "native"), "digits_train")


@pytest.fixture(scope="module")
def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    with np.load(SPECS / "data" / "digits_train.npz") as data:
        image, label = data["image"].astype(np.float32), data["label"].astype(np.int32)
    return [
        (image[n * BATCH :][:BATCH].copy(), label[n * BATCH :][:BATCH].copy()) for n in range(STEPS)
    ]


@pytest.mark.sampled(4)
def test_steps_are_those_of_the_trainer(learner: Learner, target: str, batches: Any) -> None:
    trainer = xlac.trainer(SPECS / "digits_train.yaml", target=target, dims={"batch": BATCH})
    assert flat(learner.state()) == flat(trainer.state())
    trainer.set_length(STEPS)
    assert learner("set_length", ctypes.c_double(STEPS)) == 0
    image, label = batches[0]
    for image, label in batches[: STEPS // 2]:
        assert learner.batch("step", image, label) == (
            0,
            *trainer.step(image=image, label=label).values(),
        )
    rate = 0.1 / 7  # as no float32 has it
    trainer.set_rate(rate)
    assert learner("set_lr", ctypes.c_double(rate)) == 0
    for image, label in batches[STEPS // 2 :]:
        assert learner.batch("step", image, label) == (
            0,
            *trainer.step(image=image, label=label).values(),
        )
    assert flat(learner.state()) == flat(trainer.state())
    told = trainer.evaluate(image=image, label=label)
    assert learner.batch("evaluate", image, label) == (0, *told.values())
    probs = np.zeros((BATCH, 10), np.float32)
    assert learner("run", pointer(image), pointer(probs)) == 0
    np.testing.assert_array_equal(probs, np.asarray(trainer(image=image)))
    assert flat(learner.state()) == flat(trainer.state())


def test_state_is_read_written_and_begun_again(learner: Learner, batches: Any) -> None:
    first = flat(learner.state())
    assert any(any(data) for data in first.values())
    learner("set_length", ctypes.c_double(STEPS))
    for image, label in batches[:3]:
        learner.batch("step", image, label)
    third = learner.state()
    expected = [learner.batch("step", image, label) for image, label in batches[3:6]]
    assert learner("reset") == 0 and flat(learner.state()) == first
    for number, facts in learner.facts():
        assert learner("set", number, pointer(third[facts.name.decode()])) == 0
    assert flat(learner.state()) == flat(third)
    assert [learner.batch("step", image, label) for image, label in batches[3:6]] == expected


def test_what_is_refused_changes_nothing(learner: Learner, batches: Any) -> None:
    image, label = batches[0]
    before = flat(learner.state())
    assert learner.batch("step", image, label)[0] == NO_LENGTH
    assert flat(learner.state()) == before
    learner("set_length", ctypes.c_double(STEPS))
    learner.batch("step", image, label)
    before = flat(learner.state())
    broken = image.copy()
    broken[1, 5] = np.nan
    assert learner.batch("step", broken, label)[0] == NOT_FINITE
    assert flat(learner.state()) == before
    assert learner.batch("step", image, label)[0] == 0
    data = np.zeros(1, np.float32)
    count = sum(1 for _ in learner.facts())
    for number in (-1, count, 1 << 30):
        assert learner("get", number, pointer(data)) == NO_TENSOR
        assert learner("set", number, pointer(data)) == NO_TENSOR
    assert learner("get", 0, None) == learner("set", 0, None) == NULL_POINTER
    learner.context.ready = 0
    assert learner("get", 0, pointer(data)) == learner("set_lr", ctypes.c_double(1)) == NOT_READY
    assert learner.batch("step", image, label)[0] == NOT_READY


def test_what_cannot_be_built_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(SPECS / "digits_train.yaml")
    for options, told in (
        (("--target", "reference"), "target 'reference' cannot write a training step"),
        (("--target", "c", "--emit", "c,h,exe"), "cannot be written as 'exe'"),
        (("--target", "cpu", "--emit", "h,exe"), "cannot be written as 'exe'"),
        (
            ("--target", "cuda", "--arch", "sm_90", "--checked"),
            "cannot report the checks of a training step",
        ),
    ):
        assert status(["build", spec, *options, "-o", str(tmp_path / "out")]) == 3
        said = capsys.readouterr().err
        assert told in said and "XL5030" in said and "digits_train.yaml:" in said
        assert not (tmp_path / "out").exists()


def test_sanitizers_find_nothing(folder: Path, tmp_path: Path) -> None:
    """The example under sanitizers, which end it at the first fault."""
    needs("cc")
    flags = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    made = tmp_path / "train"
    run(
        "cc",
        "-std=c99",
        *WARNINGS,
        *flags,
        f"-I{folder}",
        EXAMPLES / "c" / "train.c",
        folder / "digits_train.c",
        "-lm",
        "-o",
        made,
    )
    assert "then: loss" in run(made)


@pytest.mark.sampled(4)
def test_an_open_batch_is_chosen_by_each_call(target: str, batches: Any, tmp_path: Path) -> None:
    needs("cc")
    options = ("--target", target, "--dim", "batch=1..8", "--emit", "h,so")
    made = build("digits_train", tmp_path / "out", *options)
    trainer = xlac.trainer(SPECS / "digits_train.yaml", target=target)
    trainer.set_length(STEPS)
    learner = Learner(made, "digits_train", sizes=8)
    learner("set_length", ctypes.c_double(STEPS))
    for image, label in batches[:2]:
        image, label = image[:3], label[:3]
        answer, *found = learner.batch("step", image, label, ctypes.byref(ctypes.c_int64(3)))
        expected = trainer.step(image=image, label=label)
        assert answer == 0
        np.testing.assert_allclose(found, list(expected.values()), rtol=1e-5)
    for size, answer in ((0, OUT_OF_BOUNDS), (8, 0), (9, OUT_OF_BOUNDS)):
        image, label = np.zeros((9, 64), np.float32), np.zeros(9, np.int32)
        assert learner.batch("step", image, label, ctypes.byref(ctypes.c_int64(size)))[0] == answer
    model = xlac.load(made)  # what was built runs as the model, with the first weights
    trainer.reset()
    image = batches[0][0][:3]
    np.testing.assert_allclose(
        np.asarray(model(image=image)), np.asarray(trainer(image=image)), rtol=1e-5, atol=1e-7
    )


@pytest.mark.sampled(4)
def test_weights_beside_the_code_and_weights_that_do_not_learn(
    target: str, batches: Any, tmp_path: Path
) -> None:
    spec = tmp_path / "digits_train.yaml"
    for file in ("digits.yaml", "digits.safetensors"):
        (tmp_path / file).symlink_to(SPECS / file)
    text = (SPECS / "digits_train.yaml").read_text()
    assert text.count("  batch: batch") == 1
    spec.write_text(text.replace("  batch: batch", "  wrt: ['logits.*']\n  batch: batch"))
    allowed = ("--allow-outside", "--dim", f"batch={BATCH}", "--weights", "mmap")
    build(str(spec), tmp_path / "out", "--target", target, *allowed)
    weights = np.fromfile(tmp_path / "out" / "digits_train.weights", np.uint8)
    learner = Learner(tmp_path / "out", "digits_train", weights=weights)
    trainer = xlac.trainer(SPECS / "digits_train.yaml", target=target, dims={"batch": BATCH})
    names = list(learner.state())
    assert "logits.weight" in names and "h1.weight" not in names
    assert flat(learner.state()).items() <= flat(trainer.state()).items()
    h1 = trainer.state()["h1.weight"]
    assert len(weights) >= h1.nbytes + trainer.state()["logits.weight"].nbytes
    before = flat(learner.state())
    learner("set_length", ctypes.c_double(STEPS))
    losses = [learner.batch("step", *batches[0]) for _ in range(8)]
    assert losses[0][0] == 0 and losses[-1][1] < losses[0][1]
    assert flat(learner.state()) != before and learner("reset") == 0
    assert flat(learner.state()) == before


@pytest.mark.sampled(1)
def test_a_library_for_several_processors_learns(batches: Any, tmp_path: Path) -> None:
    """The first state is that of any processor, and steps are those of this one."""
    options = ("--target", "cpu", "--cpu", "x86-64,x86-64-v3", "--emit", "h,so,a")
    made = build("digits_train", tmp_path / "out", "--dim", f"batch={BATCH}", *options)
    learner = Learner(made, "digits_train")
    trainer = xlac.trainer(SPECS / "digits_train.yaml", dims={"batch": BATCH})
    assert flat(learner.state()) == flat(trainer.state())
    trainer.set_length(STEPS)
    learner("set_length", ctypes.c_double(STEPS))
    for image, label in batches[:5]:
        answer, *found = learner.batch("step", image, label)
        assert answer == 0
        np.testing.assert_allclose(
            found, list(trainer.step(image=image, label=label).values()), rtol=1e-4
        )


@pytest.mark.long
def test_micro_batches_are_called_one_by_one(batches: Any, tmp_path: Path) -> None:
    """Two of them and then an update, to the bits of a trainer that cuts the batch itself."""
    spec = tmp_path / "digits_train.yaml"
    for file in ("digits.yaml", "digits.safetensors"):
        (tmp_path / file).symlink_to(SPECS / file)
    text = (SPECS / "digits_train.yaml").read_text()
    spec.write_text(text.replace("  batch: batch", "  accumulate: 3\n  batch: batch"))
    build(
        str(spec), tmp_path / "out", "--allow-outside", "--dim", f"batch={BATCH}", "--emit", "c,h"
    )
    learner = Learner(tmp_path / "out", "digits_train")
    trainer = xlac.trainer(spec, target="c", allow_outside=True)
    trainer.set_length(STEPS)
    learner("set_length", ctypes.c_double(STEPS))
    for first in (0, 3):
        image, label = (np.concatenate([b[n] for b in batches[first : first + 3]]) for n in (0, 1))
        trainer.step(image=image, label=label)
        for number in range(first, first + 3):
            called = "step" if number == first + 2 else "accumulate"
            before = flat(learner.state())["h1.weight"]
            assert learner.batch(called, *batches[number])[0] == 0
            assert (flat(learner.state())["h1.weight"] == before) == (called == "accumulate")
    assert flat(trainer.state()).items() <= flat(learner.state()).items()
