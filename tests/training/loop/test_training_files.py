"""Data in files of every kind become the same inputs; what is wrong is said with its place."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logistic import LogisticSteps, samples
from safetensors.numpy import save_file

from xlac.ir.dims import symbol
from xlac.ir.types import Type
from xlac.training.data import array_files, spill
from xlac.training.data.batches import EpochOrder
from xlac.training.data.files import column_names
from xlac.training.data.rows import ColumnData
from xlac.training.loop.train import opened
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import SourceError

DATA = samples(50)


def whole(data: Any) -> dict[str, Array]:
    """All rows, in an order and back, as batches of 7."""
    data.verify(lambda *told: None)
    parts = list(data.batches(EpochOrder(7), 0))
    shuffled = list(data.batches(EpochOrder(7, 1), 0))
    found = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    mixed = {name: np.concatenate([p[name] for p in shuffled]) for name in parts[0]}
    for name, array in found.items():
        assert sorted(map(bytes, mixed[name])) == sorted(map(bytes, array))
        assert not np.array_equal(mixed[name], array)
    return found


def write_csv(path: Path, arrays: dict[str, Array], delimiter: str = ",") -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([*(f"image.{i}" for i in range(8)), "note", "label"])
        for x, t in zip(arrays["image"], arrays["label"], strict=True):
            writer.writerow([*map(repr, x.tolist()), 'a "quoted", text', int(t)])


def npz(folder: Path) -> list[str]:
    np.savez(folder / "d.npz", **DATA)
    return [str(folder / "d.npz")]


def compressed(folder: Path) -> list[str]:
    np.savez_compressed(folder / "c.npz", **DATA, other=np.array(["text"]))
    return [str(folder / "c.npz")]


def npy(folder: Path) -> list[str]:
    np.save(folder / "x.npy", DATA["image"])
    np.save(folder / "label.npy", DATA["label"].astype(np.int64))
    return [f"image={folder / 'x.npy'}", str(folder / "label.npy")]


def shards(folder: Path) -> list[str]:
    for number, at in enumerate((slice(0, 20), slice(20, 21), slice(21, 50))):
        save_file(
            {n: np.ascontiguousarray(a[at]) for n, a in DATA.items()},
            folder / f"s{number}.safetensors",
        )
    return [str(folder / "s*.safetensors")]


def table(folder: Path) -> list[str]:
    write_csv(folder / "t.csv", DATA)
    return [str(folder / "t.csv")]


def tabs(folder: Path) -> list[str]:
    write_csv(folder / "t.tsv", DATA, "\t")
    return [str(folder / "t.tsv")]


def parquet(folder: Path) -> list[str]:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    columns = {"image": DATA["image"].tolist(), "label": DATA["label"], "name": ["a"] * 50}
    types = [arrow.list_(arrow.float32()), arrow.int64(), arrow.string()]
    made = arrow.table(
        [arrow.array(v, t) for v, t in zip(columns.values(), types, strict=True)],
        names=list(columns),
    )
    write_table(made, folder / "d.parquet", row_group_size=16)
    return [str(folder / "d.parquet")]


@pytest.mark.parametrize("write", [npz, compressed, npy, shards, table, tabs, parquet])
@pytest.mark.parametrize("memory", [spill.MAX_IN_MEMORY, 100])
def test_every_kind_of_file(
    write: Any, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with next to nothing kept in memory."""
    monkeypatch.setattr(spill, "MAX_IN_MEMORY", memory)
    monkeypatch.setattr(array_files, "MAX_IN_MEMORY", memory)
    found = whole(opened(LogisticSteps(), write(tmp_path)))
    for name, array in DATA.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_files_are_mapped_and_not_read(tmp_path: Path) -> None:
    """Batches of files of 8 GB, of which nearly nothing is on disk."""
    rows = (8 << 30) // 32
    image = np.lib.format.open_memmap(tmp_path / "image.npy", "w+", np.float32, (rows, 8))
    image[rows - 1] = 3
    label = np.lib.format.open_memmap(tmp_path / "label.npy", "w+", np.int8, (rows,))
    label[rows - 1] = 2
    data = opened(LogisticSteps(), [str(tmp_path / "image.npy"), str(tmp_path / "label.npy")])
    order = EpochOrder(16, epoch=1)
    assert data.steps(order) == rows // 16
    assert not next(data.batches(order, 5))["image"].any()
    last = next(data.batches(EpochOrder(16), rows // 16 - 1))
    assert last["image"][-1].tolist() == [3] * 8 and last["label"].tolist() == [0] * 15 + [2]


def test_columns_of_other_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=DATA["image"], y=DATA["label"])
    columns = column_names({"image": "x", "label": "y"})
    found = whole(opened(LogisticSteps(), str(tmp_path / "d.npz"), columns))
    np.testing.assert_array_equal(found["label"], DATA["label"])
    write_csv(tmp_path / "t.csv", DATA)
    text = (tmp_path / "t.csv").read_text().replace("image.", "p", 8)
    (tmp_path / "t.csv").write_text(text)
    found = whole(
        opened(LogisticSteps(), str(tmp_path / "t.csv"), column_names({"image": "p0..p7"}))
    )
    np.testing.assert_array_equal(found["image"], DATA["image"])
    assert column_names({"a": "p08..p11,q"}) == {"a": ("p08", "p09", "p10", "p11", "q")}


class ImageSteps(LogisticSteps):
    def __init__(self, *shape: int, dtype: DType = DType.F32) -> None:
        super().__init__()
        rows = symbol("batch", 1, 64, 8)
        self.inputs = {"image": Type(dtype, (rows, *shape)), "label": Type(DType.I32, (rows,))}


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[Path, Array]:
    image = pytest.importorskip("PIL.Image")
    made = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
    for number, array in enumerate(made):
        folder = tmp_path / "pictures" / ("ant" if number < 2 else "bee")
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(array).save(folder / f"{number}.png")
    (tmp_path / "pictures" / "ant" / "readme.txt").write_text("no picture")
    return tmp_path / "pictures", made


def test_folders_of_images(pictures: tuple[Path, Array]) -> None:
    folder, made = pictures
    first = next(opened(ImageSteps(3, 5, 4), str(folder)).batches(EpochOrder(6), 0))
    assert first["label"].tolist() == [0, 0, 1, 1, 1, 1] and first["label"].dtype == np.int32
    expected = made.astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(first["image"], expected.transpose(0, 3, 1, 2))
    last = next(opened(ImageSteps(5, 4, 3, dtype=DType.U8), str(folder)).batches(EpochOrder(6), 0))
    np.testing.assert_array_equal(last["image"], made)
    grey = next(opened(ImageSteps(5, 4), str(folder)).batches(EpochOrder(6, 1), 0))
    assert grey["image"].shape == (6, 5, 4)
    with pytest.raises(
        SourceError, match=r"0.png has 4 × 5 pixels, and input 'image' takes 8 × 8.*XL6311"
    ):
        next(opened(ImageSteps(3, 8, 8), str(folder)).batches(EpochOrder(6), 0))
    scaled = next(opened(ImageSteps(3, 8, 8), str(folder), resize=True).batches(EpochOrder(6), 0))
    assert scaled["image"].shape == (6, 3, 8, 8)
    (folder / "bee" / "4.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    with pytest.raises(SourceError, match=r"4.png: .*XL6311"):
        next(opened(ImageSteps(3, 5, 4), str(folder)).batches(EpochOrder(6), 0))


def test_the_digest_tells_data_apart(tmp_path: Path) -> None:
    digests = set()
    for data in (DATA, DATA, {**DATA, "label": DATA["label"][::-1]}, samples(49)):
        made = opened(LogisticSteps(), data)
        made.verify(lambda *told: None)
        digests.add(made.digest)
    assert isinstance(made, ColumnData) and len(digests) == 3
    np.savez(tmp_path / "d.npz", **DATA)
    filed = opened(LogisticSteps(), str(tmp_path / "d.npz"))
    filed.verify(lambda *told: None)
    assert filed.digest in digests


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    (tmp_path / "ant").mkdir()
    (tmp_path / "ant" / "a.png").write_bytes(b"")
    for package in ("pyarrow", "pyarrow.parquet", "PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, package, None)
    for place, told in (
        ("d.parquet", r"pyarrow.*XL7010\]\n.*'xlac\[parquet\]'"),
        ("", r"PIL.*XL7010\]\n.*'xlac\[pictures\]'"),
    ):
        with pytest.raises(SourceError, match=told):
            opened(ImageSteps(3, 5, 4), str(tmp_path / place))
