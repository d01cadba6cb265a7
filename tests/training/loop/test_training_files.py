"""Data in files of every kind become the same inputs; what is wrong is said with its place."""

from __future__ import annotations

import csv
import struct
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
from xlac_sdk.source import LimitError, SourceError

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


def damaged_member(folder: Path) -> list[str]:
    file = str(folder / "d.npz")
    np.savez(file, label=np.zeros(5000, np.int32), image=np.zeros((5000, 8), np.float32))
    data = bytearray(Path(file).read_bytes())
    data[-700] ^= 1
    Path(file).write_bytes(data)
    return [file]


def changed(**arrays: Any) -> Any:
    def write(folder: Path) -> list[str]:
        np.savez(folder / "d.npz", **{**DATA, **arrays})
        return [str(folder / "d.npz")]

    return write


def text(name: str, content: str | bytes) -> Any:
    def write(folder: Path) -> list[str]:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return [str(folder / name)]

    return write


def bad_image(**at: Any) -> Array:
    made: Array = DATA["image"].copy()
    made[12, 3] = np.nan
    return made


HEAD = ",".join(f"image.{i}" for i in range(8)) + ",label\n"
ROW = "1,2,3,4,5,6,7,8,0\n"
LABELS = DATA["label"].astype(np.int64)
WRONG = {
    "a name": (changed(label=np.array(["a"])), r"XL6301|XL6303|XL6305"),
    "missing": (
        lambda f: [
            np.savez(f / "d.npz", image=DATA["image"], target=DATA["label"]),
            str(f / "d.npz"),
        ][1:],
        (
            r"there is no 'label' \(i32\[batch\]\) in .*d.npz, which has image, "
            r"target \[XL6302\]\n.*--columns label=target"
        ),
    ),
    "f64": (
        changed(image=DATA["image"].astype(np.float64)),
        r"numbers for input 'image' are float64, and it takes f32 \[XL6303\]",
    ),
    "floats for labels": (changed(label=DATA["label"].astype(np.float32)), r"XL6303"),
    "shape": (
        changed(image=DATA["image"][:, :7]),
        r"a row for input 'image' is \[7\], and it takes \[8\] \[XL6304\]",
    ),
    "rows": (
        changed(label=DATA["label"][:49]),
        r"input 'image' has 50 rows, and 'label' 49 \[XL6305\]",
    ),
    "no rows": (changed(image=DATA["image"][:0], label=DATA["label"][:0]), "XL6305"),
    "a number": (changed(label=np.int32(3)), "XL6304"),
    "NaN": (changed(image=bad_image()), r"d.npz, row 12: input 'image' is NaN at \[3\] \[XL6306\]"),
    "label": (
        changed(label=np.where(np.arange(50) == 31, 4, DATA["label"])),
        r"d.npz, row 31: input 'label' is 4, and its range is 0..3 \[XL6307\]",
    ),
    "negative": (
        changed(label=np.where(np.arange(50) == 2, -1, LABELS)),
        r"row 2: input 'label' is -1, and its range is 0..3 \[XL6307\]",
    ),
    "large": (
        changed(label=np.where(np.arange(50) == 2, 1 << 40, LABELS)),
        r"row 2: input 'label' is 1099511627776, and i32 holds .*XL6307",
    ),
    "unsigned": (
        changed(label=np.where(np.arange(50) == 2, 1 << 63, LABELS.astype(np.uint64))),
        r"row 2: input 'label' is 9223372036854775808, and .*XL6307",
    ),
    "damaged": (damaged_member, r"its member 'image.npy' is damaged.*XL6301"),
    "no npz": (text("d.npz", b"PK\x03\x04 no"), "XL6301"),
    "no npy": (
        text("image.npy", b"\x80\x04no"),
        r"image.npy: it is no .npy file of numbers \[XL6301\]",
    ),
    "no safetensors": (text("d.safetensors", struct.pack("<Q", 1 << 40) + b"{"), "XL6301"),
    "no parquet": (text("d.parquet", b"PAR1 no"), "XL6301|XL7010"),
    "kind": (text("d.pkl", b"\x80\x04"), r"d.pkl: files of this kind are not read \[XL6301\]"),
    "pattern": (lambda f: [str(f / "*.npz")], r"no file is named as .*XL6301"),
    "cell": (
        text("d.csv", HEAD + ROW * 5000 + "1,2,x,4,5,6,7,8,0\n"),
        (
            r"d.csv:5002:5: error: 'x' is no number, "
            r"and input 'image' takes a number \(f32\) \[XL6308\]"
        ),
    ),
    "label of csv": (
        text("d.csv", HEAD + ROW + "1,2,3,4,5,6,7,8,1.5\n"),
        (
            r"d.csv:3:17: error: '1.5' is no integer, "
            r"and input 'label' takes an integer \(i32\) \[XL6308\]"
        ),
    ),
    "short line": (
        text("d.csv", HEAD + ROW + "1,2,3\n"),
        r"d.csv:3:1: error: there are 3 values, and the first line names 9 \[XL6308\]",
    ),
    "empty cell": (
        text("d.csv", HEAD + "1,2,3,4,5,6,7,8,\n"),
        r"d.csv:2:17: error: nothing is here.*XL6308",
    ),
    "csv NaN": (
        text("d.csv", HEAD + ROW + ROW.replace("4", "nan")),
        r"d.csv:3: input 'image' is NaN at \[3\] \[XL6306\]",
    ),
    "csv label": (
        text("d.csv", HEAD + ROW + ROW.replace(",0\n", ",9\n")),
        r"d.csv:3: input 'label' is 9, and its range is 0..3 \[XL6307\]",
    ),
    "twice": (text("d.csv", "a,a\n1,2\n"), r"d.csv:1: two columns are named 'a' \[XL6301\]"),
    "names": (text("d.csv", HEAD), r"d.csv has no rows \[XL6305\]"),
    "empty": (text("d.csv", ""), r"XL6301"),
    "numbered": (text("d.csv", "image.0,image.2,label\n1,2,0\n"), "XL6312"),
    "two files": (
        lambda f: [*npz(f), *compressed(f)],
        r"'image' is in .*d.npz and in .*c.npz \[XL6302\]",
    ),
    "folder": (lambda f: [str(f)], r"there are no images in folders in it \[XL6305\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case: str, tmp_path: Path) -> None:
    write, told = WRONG[case]
    with pytest.raises(SourceError, match=told):
        opened(LogisticSteps(), write(tmp_path)).verify(lambda *told: None)


def test_shards_of_other_types(tmp_path: Path) -> None:
    for number, width in enumerate((8, 7)):
        np.savez(tmp_path / f"{number}.npz", image=DATA["image"][:, :width], label=DATA["label"])
    with pytest.raises(
        SourceError, match=r"'image' is float32\[7\] in .*1.npz, and float32\[8\] .*XL6304"
    ):
        opened(LogisticSteps(), str(tmp_path / "*.npz"))
    np.savez(tmp_path / "1.npz", image=DATA["image"])
    with pytest.raises(SourceError, match=r"1.npz has no 'label', and .*XL6302"):
        opened(LogisticSteps(), str(tmp_path / "*.npz"))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened(LogisticSteps(), str(tmp_path / "none.npz"))


def test_a_full_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 10

    monkeypatch.setattr(array_files, "MAX_IN_MEMORY", 100)
    monkeypatch.setattr(spill, "MAX_IN_MEMORY", 100)
    monkeypatch.setattr("shutil.disk_usage", lambda place: Usage)
    with pytest.raises(
        LimitError, match=r"c.npz: .* has no room for its .* bytes decoded \[XL4002\]"
    ):
        opened(LogisticSteps(), compressed(tmp_path))


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
