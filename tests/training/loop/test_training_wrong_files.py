"""What is wrong with data in files is said with its place."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logistic import LogisticSteps
from test_training_files import DATA, compressed, npz

from xlac.training.data import array_files, spill
from xlac.training.loop.train import opened
from xlac_sdk.dtypes import Array
from xlac_sdk.source import LimitError, SourceError


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
        r"image.npy: it is not a .npy file of numbers \[XL6301\]",
    ),
    "no safetensors": (text("d.safetensors", struct.pack("<Q", 1 << 40) + b"{"), "XL6301"),
    "no parquet": (text("d.parquet", b"PAR1 no"), "XL6301|XL7010"),
    "kind": (text("d.pkl", b"\x80\x04"), r"d.pkl: files of this kind are not read \[XL6301\]"),
    "pattern": (lambda f: [str(f / "*.npz")], r"no file is named as .*XL6301"),
    "cell": (
        text("d.csv", HEAD + ROW * 5000 + "1,2,x,4,5,6,7,8,0\n"),
        (
            r"d.csv:5002:5: error: 'x' is not a number, "
            r"and input 'image' takes a number \(f32\) \[XL6308\]"
        ),
    ),
    "label of csv": (
        text("d.csv", HEAD + ROW + "1,2,3,4,5,6,7,8,1.5\n"),
        (
            r"d.csv:3:17: error: '1.5' is not an integer, "
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
