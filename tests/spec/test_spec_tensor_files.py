"""Weights in NumPy's archives and PyTorch's state dicts: read as their own libraries read them,
refused where they are anything else.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.spec.load import load
from xlac.spec.weights.open_files import opened
from xlac.spec.weights.tensor_files import BadFile, TensorFile
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError

STATE_DICT = Path(__file__).parent / "files" / "state_dict.pt"  # of torch.save, PyTorch 2.13
LINEAR = (
    'xlac: 1\nweights: {weights}\ninputs: {{x: "f32[4, 8]"}}\ngraph:\n  y: {{op: linear, in: '
    "x, units: 4}}\noutputs: [y]\n"
)
BASE = np.arange(24, dtype=np.float32)
SAVED = {
    "model.0.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "model.0.bias": np.float32([0, 1]), "model.1.weight": np.float32([0, 1]),
    "model.1.bias": np.float32([0, 1]), "model.1.running_mean": np.float32([0, 1]),
    "model.1.running_var": np.float32([0, 1]), "model.1.num_batches_tracked": np.int64(0),
    "turned": BASE.reshape(4, 6).T, "part": BASE[3:9:2],
    "half": np.arange(5).astype(DType.BF16.numpy), "none": np.empty((0, 4), np.float32),
    "scalar": np.float64(2.5), "flags": np.array([True, False]), "learned": np.float32([1, 1]),
}  # fmt: skip


def equal(found: TensorFile, arrays: dict[str, object]) -> None:
    assert set(found.tensors) == set(arrays)
    for name, array in arrays.items():
        wanted = np.asarray(array)
        assert (
            found[name].dtype == wanted.dtype
            and found.tensors[name].shape == wanted.shape
            and not found[name].flags.writeable
        )
        np.testing.assert_array_equal(found[name].astype(np.float64), wanted.astype(np.float64))


def test_a_state_dict_is_what_was_saved() -> None:
    equal(opened(STATE_DICT), SAVED)


def test_pytorch_reads_the_same(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    saved = torch.load(STATE_DICT, weights_only=True)
    np.testing.assert_array_equal(saved["turned"].numpy(), SAVED["turned"])
    torch.save(saved["model"], tmp_path / "again.pt")
    equal(
        opened(tmp_path / "again.pt"),
        {k.removeprefix("model."): v for k, v in SAVED.items() if k.startswith("model.")},
    )


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_numpys_archives_are_read(save: Callable[..., None], tmp_path: Path) -> None:
    arrays = {
        d.value: np.arange(6).reshape(2, 3).astype(d.numpy) for d in DType if d is not DType.BF16
    }
    arrays |= {
        "a.weight": np.zeros((0, 4), np.float32),
        "scalar": np.array(3.5),
        "one/two": np.ones(7, np.uint8),
    }
    save(tmp_path / "w.npz", **arrays)
    equal(opened(tmp_path / "w.npz"), arrays)


def test_models_take_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, bias, x = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((4, 8), (4,), (4, 8))
    )
    np.savez(tmp_path / "w.npz", **{"y.weight": weight, "y.bias": bias, "old.count": np.int64(3)})
    (tmp_path / "m.yaml").write_text(LINEAR.format(weights='{file: w.npz, ignore: ["*.count"]}'))
    np.testing.assert_allclose(
        xlac.compile(tmp_path / "m.yaml")(x), x @ weight.T + bias, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("narrow", [np.float16, DType.BF16.numpy])
def test_narrower_floats_are_widened_by_permission(narrow: type, tmp_path: Path) -> None:
    from xlac.ir.types import Type
    from xlac.spec.weights.safetensors import TensorSource, write_tensors

    kept = {
        "y.weight": np.linspace(-1, 1, 32).reshape(4, 8).astype(narrow),
        "y.bias": np.ones(4).astype(narrow),
    }
    dtype = DType.F16 if narrow is np.float16 else DType.BF16
    write_tensors(
        tmp_path / "w.safetensors",
        {n: TensorSource(Type(dtype, a.shape), lambda a=a: a) for n, a in kept.items()},
    )  # type: ignore[misc]
    (tmp_path / "m.yaml").write_text(LINEAR.format(weights="w.safetensors"))
    with pytest.raises(SourceError, match=r"XL3006(.|\n)*widen: true"):
        load(tmp_path / "m.yaml")
    (tmp_path / "m.yaml").write_text(LINEAR.format(weights="{file: w.safetensors, widen: true}"))
    weights = load(tmp_path / "m.yaml").weights
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(weights["y.weight"], kept["y.weight"].astype(np.float32))


def test_what_would_lose_digits_is_not_permitted(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **{"y.weight": np.zeros((4, 8)), "y.bias": np.zeros(4, np.int32)})
    (tmp_path / "m.yaml").write_text(LINEAR.format(weights="{file: w.npz, widen: true}"))
    with pytest.raises(SourceError) as refused:
        load(tmp_path / "m.yaml")
    assert [d.code for d in refused.value.diagnostics] == ["XL3006", "XL3006"]


def test_a_pattern_that_ignores_nothing_is_a_mistake(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "w.npz",
        **{"y.weight": np.zeros((4, 8), np.float32), "y.bias": np.zeros(4, np.float32)},
    )
    (tmp_path / "m.yaml").write_text(LINEAR.format(weights='{file: w.npz, ignore: ["*.bias"]}'))
    with pytest.raises(SourceError, match="XL3011"):
        load(tmp_path / "m.yaml")


def test_every_tensor_is_listed_before_there_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.yaml").write_text(LINEAR.format(weights="{file: later.safetensors}"))
    assert status(["check", str(tmp_path / "m.yaml"), "--weights"]) == 0
    assert capsys.readouterr().out.split("\n") == ["y.weight  f32[4, 8]", "y.bias    f32[4]", ""]
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    spec, _, rest = readme.partition("```yaml\n")[2].partition("```")
    (tmp_path / "scores.yaml").write_text(spec)
    assert status(["check", str(tmp_path / "scores.yaml"), "--weights"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert f"# learns {' and '.join(names)}" in spec and "xlac check scores.yaml --weights" in rest


# ---- hostile files -------------------------------------------------------------------------------


class Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch ran",)


class Module:
    """Stands for a module that was pickled whole."""


def changed(member: str, data: bytes | None, path: Path) -> Path:
    """The state dict with one member replaced, or left out."""
    with zipfile.ZipFile(STATE_DICT) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            inside = info.filename.partition("/")[2]
            if inside != member or data is not None:
                new.writestr(
                    info.filename, data if inside == member and data is not None else old.read(info)
                )
    return path


def pickled() -> bytes:
    with zipfile.ZipFile(STATE_DICT) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))


@pytest.mark.parametrize(
    ("member", "data", "said"),
    [
        (
            "data.pkl",
            pickle.dumps({"a": Runs()}, 2),
            "system, which is not a tensor: save the state dict of the model alone",
        ),
        (
            "data.pkl",
            pickle.dumps({"a": Runs()}, 5),
            "system, which is not a tensor: save the state dict of the model alone",
        ),
        (
            "data.pkl",
            b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
            "instruction BYTEARRAY8|damaged",
        ),
        ("data.pkl", b"\x80\x02cbuiltins\neval\nX\x04\x00\x00\x001+1\x00\x85R.", "builtins.eval"),
        ("data.pkl", b"\x80\x02}r\xff\xff\xff\x7f.", "at random"),
        (
            "data.pkl",
            pickle.dumps(Module(), 2),
            r"NEWOBJ, which a state dict lacks: save the state",
        ),
        ("data.pkl", b"\x80\x02]q\x00.", "no dictionary of tensors: save the state dict"),
        ("data.pkl", b"\x80\x02U\x01a.", "SHORT_BINSTRING"),
        ("data.pkl", b"", "damaged"),
        ("data.pkl", pickled().replace(b"K\x18", b"K\x19"), "bytes for 25 f32|elements"),
        ("data.pkl", pickled()[:-40], "damaged"),
        ("byteorder", b"big", "big-endian"),
        ("data/0", None, "missing|cannot be read"),
        ("data/0", b"\0" * 3, "has 3 bytes"),
    ],
)
def test_state_dicts_that_are_none(
    member: str, data: bytes | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadFile, match=said):
        opened(changed(member, data, tmp_path / "w.pt"))
    assert not (tmp_path / "ran").exists()


def test_dictionaries_that_hold_each_other_end(tmp_path: Path) -> None:
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"a": deep, "b": deep}
    with pytest.raises(BadFile, match=r"nested|names"):
        opened(changed("data.pkl", pickle.dumps(deep, 2), tmp_path / "w.pt"))
    wide: dict[str, object] = {}
    for _ in range(25):
        wide = {"a": wide, "b": wide}
    with pytest.raises(BadFile, match="more than"):
        opened(changed("data.pkl", pickle.dumps(wide, 2), tmp_path / "w.pt"))


def test_archives_that_are_neither(tmp_path: Path) -> None:
    for names in (["a.txt"], ["a.npy", "b.txt"], []):
        with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
            for name in names:
                archive.writestr(name, b"x")
        with pytest.raises(BadFile):
            opened(tmp_path / "w.zip")
    arrays = io.BytesIO()
    np.savez(arrays, a=np.array([{}], object), allow_pickle=True)
    (tmp_path / "w.npz").write_bytes(arrays.getvalue())
    file = opened(tmp_path / "w.npz")
    with pytest.raises(BadFile, match="element type object"):
        file["a"]


@pytest.mark.parametrize(
    "make",
    [
        lambda path: np.savez_compressed(path, a=np.arange(50.0), b=np.ones(3, np.int8)),
        lambda path: path.write_bytes(STATE_DICT.read_bytes()),
    ],
    ids=["npz", "state dict"],
)
def test_damage_is_told_or_harmless(make: Callable[[Path], object], tmp_path: Path) -> None:
    """Random damage gives BadFile, or arrays of the types and shapes that the file says."""
    path = tmp_path / "w.npz"
    make(path)
    good, rng, refused = path.read_bytes(), Random(0), 0
    for _ in range(200):
        data = bytearray(good)
        for _ in range(rng.choice([1, 1, 2, 5])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            file = opened(path)
            for name, tensor in file.tensors.items():
                assert file[name].shape == tensor.shape
        except BadFile:
            refused += 1
    assert refused > 20
