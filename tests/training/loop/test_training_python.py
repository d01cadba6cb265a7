"""Data of Python programs: mappings of arrays, datasets, iterables of batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logistic import LogisticSteps, samples

from xlac.ir.dims import symbol
from xlac.ir.types import Type
from xlac.training.data.batches import EpochOrder, prefetched
from xlac.training.loop.train import opened, train
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import SourceError

DATA = samples(50)


def rows() -> list[dict[str, Any]]:
    """As Hugging Face gives them: lists of Python's numbers."""
    return [{"image": x.tolist(), "label": int(t)} for x, t in zip(*DATA.values(), strict=True)]


class Dataset:
    """As PyTorch's: tuples by number."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, at: int) -> tuple[Array, int]:
        return DATA["image"][at], int(DATA["label"][at])


class Several(Dataset):
    """As Hugging Face's: several at once."""

    def __getitems__(self, at: list[int]) -> list[dict[str, Any]]:
        return [rows()[n] for n in at]

    def __getitem__(self, at: int) -> tuple[Array, int]:
        if at:
            raise AssertionError("one by one")
        return super().__getitem__(at)


@pytest.mark.parametrize("data", [DATA, rows(), Dataset(), Several()])
def test_whatever_has_rows_is_trained_on_alike(data: Any, tmp_path: Path) -> None:
    made = LogisticSteps()
    run = train(made, data, tmp_path / "run", epochs=2, batch=16, seed=1)
    other = LogisticSteps()
    train(other, DATA, tmp_path / "other", epochs=2, batch=16, seed=1)
    assert run.steps == 8 and len(run.metrics) == 3
    np.testing.assert_array_equal(made.state()["w"], other.state()["w"])


def examples() -> Iterator[tuple[list[float], int]]:
    """An example at a time, as Hugging Face's streamed datasets give them unless batched."""
    yield from ((x.tolist(), int(t)) for x, t in zip(*DATA.values(), strict=True))


class Batches:
    """What a DataLoader is: batches of a known size and number."""

    batch_size = 16

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        for at in range(0, 50, 16):
            yield tuple(array[at : at + 16] for array in DATA.values())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["batches", "torch"])
def test_a_data_loader(kind: str, tmp_path: Path) -> None:
    data: Any = Batches()
    if kind == "torch":
        torch = pytest.importorskip("torch")
        dataset = torch.utils.data.TensorDataset(*map(torch.from_numpy, DATA.values()))
        data = torch.utils.data.DataLoader(dataset, batch_size=16)
    made = LogisticSteps()
    run = train(made, data, tmp_path / "run", epochs=2)
    assert [row["step"] for row in run.metrics] == [0, 4, 8] and made.length == 8
    other = LogisticSteps()
    train(other, DATA, tmp_path / "other", epochs=2, batch=16, shuffle=False)
    np.testing.assert_array_equal(made.state()["w"], other.state()["w"])
    with pytest.raises(SourceError, match=r"batches already.*XL6309(.|\n)*leave batch out"):
        train(made, data, tmp_path / "sized", epochs=2, batch=8)


class Stream:
    """Batches in an order of its own each epoch, of no known number."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        turn = sum(self.epochs)
        for at in range(3):
            yield {
                name: np.roll(array, turn, 0)[at * 16 : at * 16 + 16]
                for name, array in DATA.items()
            }


def test_a_stream(tmp_path: Path) -> None:
    stream = Stream()
    made = LogisticSteps()
    run = train(made, stream, tmp_path / "run", epochs=2)
    assert stream.epochs == [1, 2] and run.steps == 6 and made.length == 0
    ended = train(LogisticSteps(), Stream, tmp_path / "ended", max_steps=5)  # a function of batches
    assert ended.steps == 5
    with pytest.raises(SourceError, match=r"generator gives its batches only once.*XL6310"):
        train(LogisticSteps(), (batch for batch in Stream()), tmp_path / "once", epochs=1)


def nan() -> Array:
    made: Array = DATA["image"].copy()
    made[3, 2] = np.nan
    return made


WRONG: dict[str, tuple[Any, str]] = {
    "names": (
        {"images": DATA["image"], "label": DATA["label"]},
        r"the data: there is no 'image'; it has 'images', 'label' \[XL6302\]",
    ),
    "f64": (
        {**DATA, "image": DATA["image"].astype(float)},
        r"'image', row 0: the numbers for input 'image' are float64.*XL6303",
    ),
    "NaN": ({**DATA, "image": nan()}, r"'image', row 3: input 'image' is NaN at \[2\] \[XL6306\]"),
    "sample": (
        [*rows()[:9], {"image": [1.0] * 8, "label": 7}],
        r"sample 9: input 'label' is 7, and its range is 0..3 \[XL6307\]",
    ),
    "ragged": (
        [*rows()[:9], {"image": [1.0] * 7, "label": 1}],
        r"sample 9: a row for input 'image' is \[7\], .*XL6304",
    ),
    "text": (
        [{"image": ["a"] * 8, "label": 7}],
        r"sample 0: input 'image' is list, which holds no numbers \[XL6303\]",
    ),
    "batch": (
        [{"image": DATA["image"][:4], "label": DATA["label"][:3]}],
        r"batch 0: inputs have different numbers of rows: 4 of 'image', 3 of 'label' \[XL6305\]",
    ),
    "batch NaN": (
        [{"image": nan(), "label": DATA["label"]}],
        r"batch 0, row 3: input 'image' is NaN at \[2\] \[XL6306\]",
    ),
    "examples": (
        examples,
        r"(?s)batch 0: a row for input 'image' is \[\], and it takes.*XL6304.*\.batch\(16\)",
    ),
    "one": ([3], "XL6310"),
    "none": ([], "XL6305"),
    "number": (7, r"int cannot be trained on \[XL6310\]"),
    "nothing": (list, "there is no batch"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case: str, tmp_path: Path) -> None:
    data, told = WRONG[case]
    with pytest.raises(SourceError, match=told):
        train(LogisticSteps(), data, tmp_path / "run", epochs=1)


class Sequences(LogisticSteps):
    """Inputs with rows in the second axis, an open length, and a table without rows."""

    batch = "n"

    def __init__(self) -> None:
        super().__init__()
        n, length = symbol("n", 2, 8, 4), symbol("T", 1, 6)
        self.inputs = {
            "tokens": Type(DType.I64, (length, n)),
            "weight": Type(DType.F32, (3,)),
            "half": Type(DType.F16, (n, length)),
        }


def test_axes_of_rows_and_whole_inputs(tmp_path: Path) -> None:
    tokens = np.arange(30).reshape(6, 5)
    np.savez(
        tmp_path / "d.npz",
        tokens=tokens.astype(np.uint8),
        weight=np.float32([1, 2, 3]),
        half=tokens,
    )
    for source in (
        str(tmp_path / "d.npz"),
        {"tokens": tokens, "weight": np.float32([1, 2, 3]), "half": tokens},
    ):
        data = opened(Sequences(), source)
        first, second = data.batches(EpochOrder(4), 0)
        assert first["tokens"].flags.c_contiguous and first["tokens"].dtype == np.int64
        np.testing.assert_array_equal(first["tokens"], tokens[:4].T)
        np.testing.assert_array_equal(second["tokens"], tokens[4:].T)
        assert first["weight"].tolist() == second["weight"].tolist() == [1, 2, 3]
        assert first["half"].dtype == np.float16
    with pytest.raises(
        SourceError, match=r"tokens' is \[7\], and it takes \[T in 1..6\] \[XL6304\]"
    ):
        opened(
            Sequences(),
            {"tokens": np.zeros((6, 7), int), "weight": np.zeros(3, "f4"), "half": tokens},
        )
    with pytest.raises(
        SourceError, match=r"'half' is 2049 at \[4\], and f16 holds all of -2048..2048 \[XL6307\]"
    ):
        opened(
            Sequences(), {"tokens": tokens, "weight": np.zeros(3, "f4"), "half": tokens + 2020}
        ).verify(lambda *t: None)


def test_a_size_that_is_no_axis() -> None:
    wrong = LogisticSteps()
    wrong.inputs = {"image": Type(DType.F32, (2 * symbol("batch", 1, 8), 8))}
    with pytest.raises(SourceError, match=r"the size 'batch' must be one of its axes.*XL6309"):
        opened(wrong, DATA)
    wrong.inputs, wrong.batch = {"x": Type(DType.F32, (2,)), "y": Type(DType.F32, (3,))}, ""
    with pytest.raises(SourceError, match=r"no size of the inputs counts the rows.*XL6309"):
        opened(wrong, DATA)


def test_errors_of_the_thread_come_out_and_it_ends() -> None:
    def broken() -> Iterator[dict[str, Array]]:
        yield {}
        raise SourceError

    with prefetched(broken()) as batches:
        assert next(batches) == {}
        with pytest.raises(SourceError):
            next(batches)

    def endless() -> Iterator[dict[str, Array]]:
        while True:
            yield {}

    with prefetched(endless()) as batches:  # left before its end
        assert next(batches) == {}
