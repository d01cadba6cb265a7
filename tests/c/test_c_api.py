"""The C API from Python: every mistake has its status, and a call that is refused has written
nothing.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import build, needs, run
from numpy.typing import NDArray

from xlac_sdk.host.capi import Status
from xlac_sdk.host.capi.library import ContextStruct, aligned


class Model:
    """`digits` as a shared library made by the C compiler, called as a C program would."""

    def __init__(self, folder: Path, *flags: str) -> None:
        # a file of its own: a library is not loaded twice
        built = folder / f"digits{''.join(flags)}.so"
        run(
            "cc",
            "-std=c99",
            *flags,
            "-O1",
            "-fPIC",
            "-shared",
            f"-I{folder}",
            folder / "digits.c",
            "-o",
            built,
            "-lm",
        )
        library = ctypes.CDLL(str(built))
        self.size, self.init, self.run_, self.reset = (
            getattr(library, f"digits_{f}") for f in ("size", "init", "run", "reset")
        )
        self.text = library.digits_status_text
        self.size.restype, self.text.restype = ctypes.c_size_t, ctypes.c_char_p
        self.library = library
        self.context = ContextStruct()
        self.memory = aligned(int(self.size()))
        self.x, self.y = np.zeros((2, 64), np.float32), np.full((2, 10), 7, np.float32)

    def start(self, *weights: Any) -> int:
        return int(
            self.init(
                ctypes.byref(self.context),
                pointer(self.memory),
                ctypes.c_size_t(len(self.memory)),
                *weights,
            )
        )

    def run(self) -> int:
        return int(self.run_(ctypes.byref(self.context), pointer(self.x), pointer(self.y)))


def pointer(array: NDArray[Any], move: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + move)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("cc")
    return build("digits", tmp_path_factory.mktemp("api") / "digits", "--dim", "batch=2")


def mapped(folder: Path, where: str) -> tuple[Model, NDArray[np.uint8]]:
    build("digits", folder, "--dim", "batch=2", "--weights", where)
    data = np.fromfile(folder / "digits.weights", np.uint8)
    block = aligned(len(data))
    block[:] = data
    return Model(folder), block


def test_mistakes_of_init(made: Path) -> None:
    model = Model(made)
    here, nbytes = ctypes.byref(model.context), ctypes.c_size_t(len(model.memory))
    assert model.init(None, pointer(model.memory), nbytes) == Status.NULL_POINTER.number
    assert model.init(here, None, nbytes) == Status.NULL_POINTER.number
    assert (
        model.init(here, pointer(model.memory), ctypes.c_size_t(len(model.memory) - 1))
        == Status.SMALL_MEMORY.number
    )
    assert model.init(here, pointer(model.memory, 1), nbytes) == Status.MISALIGNED.number
    assert model.run() == Status.NOT_READY.number
    assert model.start() == 0
    assert model.run() == 0 and abs(model.y.sum() - 2) < 1e-5


def test_mistakes_of_run_write_nothing(made: Path) -> None:
    model = Model(made, "-DDIGITS_DEBUG")
    assert model.run() == Status.NOT_READY.number
    assert model.start() == 0
    before = model.memory.copy()
    here = ctypes.byref(model.context)
    assert model.run_(None, pointer(model.x), pointer(model.y)) == Status.NULL_POINTER.number
    assert model.run_(here, None, pointer(model.y)) == Status.NULL_POINTER.number
    assert model.run_(here, pointer(model.x), None) == Status.NULL_POINTER.number
    assert model.run_(here, pointer(model.x, 2), pointer(model.y)) == Status.MISALIGNED.number
    assert model.run_(here, pointer(model.x), pointer(model.y, 1)) == Status.MISALIGNED.number
    assert (model.y == 7).all() and (model.memory == before).all()
    assert model.reset(None) == Status.NULL_POINTER.number
    assert model.reset(ctypes.byref(ContextStruct())) == Status.NOT_READY.number


def test_every_status_says_something(made: Path) -> None:
    model = Model(made)
    for status in Status:
        assert model.text(status.number).decode() == status.text
    assert model.text(-5) == model.text(99) and model.text(99)


@pytest.mark.parametrize("where", ["file", "mmap"])
def test_weights_are_checked(where: str, tmp_path: Path) -> None:
    needs("cc")
    model, block = mapped(tmp_path / "digits", where)
    nbytes = ctypes.c_size_t(len(block))
    assert model.start(None, nbytes) == Status.NO_WEIGHTS.number
    assert model.start(pointer(block, 1), nbytes) == Status.MISALIGNED.number
    assert (
        model.start(pointer(block), ctypes.c_size_t(len(block) - 64)) == Status.WRONG_WEIGHTS.number
    )
    for at in (0, 8, 16):  # magic, length, hash
        block[at] ^= 1
        assert model.start(pointer(block), nbytes) == Status.WRONG_WEIGHTS.number
        block[at] ^= 1
    check = model.library.digits_check_weights
    assert check(pointer(block), nbytes) == 0
    for at in (64, len(block) // 2, len(block) - 40):
        block[at] ^= 128
        assert check(pointer(block), nbytes) == Status.WRONG_WEIGHTS.number
        assert model.start(pointer(block), nbytes) == (
            Status.WRONG_WEIGHTS.number if where == "file" else 0
        )
        block[at] ^= 128
    assert model.start(pointer(block), nbytes) == 0 and model.run() == 0


def test_swapped_weights_are_seen(tmp_path: Path) -> None:
    """A hash that only added words up would not see two of them change places."""
    needs("cc")
    model, block = mapped(tmp_path / "digits", "file")
    words = block.view(np.uint64)
    words[[20, 400]] = words[[400, 20]]
    assert model.start(pointer(block), ctypes.c_size_t(len(block))) == Status.WRONG_WEIGHTS.number


def test_threads_share_the_code_and_the_weights(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    needs("cc")
    model, block = mapped(tmp_path / "digits", "mmap")
    rng = np.random.default_rng(0)
    inputs = [rng.random((2, 64), np.float32) for _ in range(8)]

    def one(x: NDArray[np.float32]) -> NDArray[np.float32]:
        context, memory, y = (
            ContextStruct(),
            aligned(int(model.size())),
            np.empty((2, 10), np.float32),
        )
        here = ctypes.byref(context)
        assert (
            model.init(
                here,
                pointer(memory),
                ctypes.c_size_t(len(memory)),
                pointer(block),
                ctypes.c_size_t(len(block)),
            )
            == 0
        )
        for _ in range(50):
            assert model.run_(here, pointer(x), pointer(y)) == 0
        return y

    alone = [one(x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(one, inputs))
    assert all((a == b).all() for a, b in zip(alone, together, strict=True))
