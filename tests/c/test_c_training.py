"""A spec that trains as one C file: a step, an evaluation and the model over one state, equal to
xlac.trainer to the bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import SPECS, WARNINGS, build, needs, run

import xlac
from xlac_sdk.host.capi.library import ContextStruct, aligned

BATCH, STEPS = 4, 20
NULL_POINTER, NOT_READY, NOT_FINITE, NO_LENGTH, NO_TENSOR = 1, 7, 11, 12, 13


class Facts(ctypes.Structure):
    """`NAME_tensor_facts`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("count", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("offset", ctypes.c_size_t),
    ]


class Learner:
    """The C file of a spec, compiled; arrays in, (status, *results) out."""

    def __init__(self, folder: Path, name: str, *flags: str) -> None:
        needs("cc")
        made = folder / "learner.so"
        run("cc", "-std=c99", "-O2", "-shared", "-fPIC", *WARNINGS, *flags, folder / f"{name}.c", "-lm", "-o", made)  # fmt: skip
        self.library, self.name = ctypes.CDLL(str(made)), name
        getattr(self.library, f"{name}_size").restype = ctypes.c_size_t
        getattr(self.library, f"{name}_tensor").restype = ctypes.POINTER(Facts)
        self.context = ContextStruct()
        self.memory = aligned(int(getattr(self.library, f"{name}_size")()))
        self.memory[:] = 0xFF
        assert self("init", pointer(self.memory), ctypes.c_size_t(len(self.memory))) == 0

    def __call__(self, function: str, *given: Any) -> int:
        answer: int = getattr(self.library, f"{self.name}_{function}")(
            ctypes.byref(self.context), *given
        )
        return answer

    def batch(self, function: str, image: Any, label: Any) -> tuple[int, float, float]:
        """`NAME_step` or `NAME_evaluate`: the status, the loss, the accuracy."""
        loss, accuracy = np.zeros((), np.float32), np.zeros((), np.float32)
        answer = self(function, *map(pointer, (image, label, loss, accuracy)))
        return answer, float(loss), float(accuracy)

    def facts(self) -> Iterator[tuple[int, Facts]]:
        number = 0
        while found := getattr(self.library, f"{self.name}_tensor")(number):
            yield number, found.contents
            number += 1

    def state(self) -> dict[str, np.ndarray]:
        """All tensors, by `NAME_get`."""
        found = {}
        for number, facts in self.facts():
            data = np.full(facts.bytes, 0xEE, np.uint8)
            assert self("get", number, pointer(data)) == 0
            found[facts.name.decode()] = data
        return found


def pointer(array: np.ndarray) -> Any:
    return ctypes.c_void_p(array.ctypes.data)


def flat(state: Any) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in state.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("train") / "out"
    return build("digits_train", made, "--dim", f"batch={BATCH}", "--emit", "c,h")


@pytest.fixture
def learner(folder: Path) -> Learner:
    return Learner(folder, "digits_train")


@pytest.fixture(scope="module")
def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    with np.load(SPECS / "data" / "digits_train.npz") as data:
        image, label = data["image"].astype(np.float32), data["label"].astype(np.int32)
    return [(image[n * BATCH :][:BATCH].copy(), label[n * BATCH :][:BATCH].copy()) for n in range(STEPS)]  # fmt: skip


def test_steps_are_those_of_the_trainer(learner: Learner, batches: Any) -> None:
    trainer = xlac.trainer(SPECS / "digits_train.yaml", target="c", dims={"batch": BATCH})
    assert flat(learner.state()) == flat(trainer.state())
    trainer.set_length(STEPS)
    assert learner("set_length", ctypes.c_double(STEPS)) == 0
    image, label = batches[0]
    for image, label in batches[: STEPS // 2]:
        assert learner.batch("step", image, label) == (0, *trainer.step(image=image, label=label).values())  # fmt: skip
    rate = 0.1 / 7  # as no float32 has it
    trainer.set_rate(rate)
    assert learner("set_lr", ctypes.c_double(rate)) == 0
    for image, label in batches[STEPS // 2 :]:
        assert learner.batch("step", image, label) == (0, *trainer.step(image=image, label=label).values())  # fmt: skip
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
