"""Weights from files that may be hostile, and from seeds."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest
from safetensors.numpy import save_file

from xlac.ir.types import Type
from xlac.spec.load import load
from xlac.spec.schema.weights import InitSpec, TensorInit
from xlac.spec.weights.initial import draw, scheme_of
from xlac.spec.weights.rename import unsafe
from xlac.spec.weights.safetensors import BadFile, SafetensorsFile
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError

LINEAR = (
    'xlac: 1\ninputs: {x: "f32[4, 8]"}\ngraph:\n  y: {op: linear, in: x, units: 4}\noutputs: [y]\n'
)


def test_files_are_read_as_the_reference_reads_them(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    arrays = {
        d.value: generator.integers(0, 2, (3, 5)).astype(d.numpy)
        for d in DType
        if d is not DType.BF16
    }
    arrays |= {
        "empty": np.zeros((0, 4), np.float32),
        "scalar": np.array(3.5),
        "odd": np.ones(7, np.uint8),
    }
    save_file(arrays, tmp_path / "w.safetensors", metadata={"by": "test"})
    found = SafetensorsFile(tmp_path / "w.safetensors")
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert (
            found[name].dtype == array.dtype
            and found[name].flags.aligned
            and not found[name].flags.writeable
        )
        np.testing.assert_array_equal(found[name], array)


def test_hostile_headers_never_crash(tmp_path: Path) -> None:
    """Random damage to a file gives BadFile or arrays inside the file, and nothing else."""
    path = tmp_path / "w.safetensors"
    save_file({"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.ones(5, np.int8)}, path)
    good = path.read_bytes()
    rng = Random(0)
    refused = 0
    for _ in range(600):
        data = bytearray(good)
        for _ in range(rng.choice([1, 1, 2, 5])):
            place = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[place] = rng.randrange(256)
                case 1:
                    del data[place : place + rng.randrange(1, 20)]
                case _:
                    data[place:place] = bytes(
                        rng.choices(b'0123456789[]{},:"-', k=rng.randrange(1, 6))
                    )
            if not data:
                break
        path.write_bytes(bytes(data))
        try:
            for array in SafetensorsFile(path).values():
                assert array.nbytes <= len(data)
        except BadFile:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([], "not a JSON object"),
        ({"a": 1}, "does not say"),
        ({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 16]}}, "has 16 bytes"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, "not a list of sizes"),
        ({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, "not a list of sizes"),
        (
            {"a": {"dtype": "F32", "shape": [1] * 1000, "data_offsets": [0, 4]}},
            "not a list of sizes",
        ),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}}, "outside"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, "outside"),
        ({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, "not text"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0.0, 4]}}, "not two numbers"),
    ],
)
def test_hostile_headers(header: object, message: str, tmp_path: Path) -> None:
    raw = json.dumps(header).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(16))
    with pytest.raises(BadFile, match=message):
        SafetensorsFile(path)


def test_deep_header(tmp_path: Path) -> None:
    raw = b'{"a":' * 100_000
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    with pytest.raises(BadFile):
        SafetensorsFile(path)


def spec(folder: Path, weights: str) -> Path:
    file = folder / "m.yaml"
    file.write_text(LINEAR + weights)
    return file


def test_several_files_and_renaming(tmp_path: Path) -> None:
    save_file({"model.dense.kernel": np.ones((4, 8), np.float32)}, tmp_path / "a.safetensors")
    save_file({"model.dense.offset": np.zeros(4, np.float32)}, tmp_path / "b.safetensors")
    text = (
        r"weights: {file: [a.safetensors, b.safetensors], rename: {'^model\.dense': y, "
        r"'kernel$': weight, 'offset$': bias}}"
    )
    weights = load(spec(tmp_path, text)).weights
    assert sorted(weights) == ["y.bias", "y.weight"]
    np.testing.assert_array_equal(weights["y.weight"], np.ones((4, 8)))


def test_everything_wrong_is_listed_at_once(tmp_path: Path) -> None:
    save_file(
        {"y.weight": np.ones((8, 4), np.float32), "z": np.ones(1), "zz": np.ones(1)},
        tmp_path / "a.safetensors",
    )
    with pytest.raises(SourceError) as caught:
        load(spec(tmp_path, "weights: a.safetensors"))
    assert sorted(d.code for d in caught.value.diagnostics) == ["XL3005", "XL3006", "XL3007"]


def test_a_link_does_not_leave_the_folder(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    save_file(
        {"y.weight": np.ones((4, 8), np.float32), "y.bias": np.ones(4, np.float32)},
        outside / "w.safetensors",
    )
    (inside / "w.safetensors").symlink_to(outside / "w.safetensors")
    file = spec(inside, "weights: w.safetensors")
    with pytest.raises(SourceError, match="XL3002"):
        load(file)
    assert len(load(file, allow_outside=True).weights) == 2


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def test_drawn_weights_are_the_same_bits_everywhere() -> None:
    """These were computed once; another machine, NumPy or library must give the same."""
    type = Type(DType.F32, (64, 32))
    assert digest(draw("h.weight", type, 0, TensorInit(scheme="kaiming"))) == "7d8b0c66581a5b6c"
    assert digest(draw("h.weight", type, 1, TensorInit(scheme="uniform"))) == "97d85cf9e017bc12"
    assert (
        digest(draw("h.weight", Type(DType.BF16, (64, 32)), 0, TensorInit(scheme="xavier")))
        == "493903c407993eb1"
    )


def test_drawn_weights_are_what_they_say() -> None:
    type = Type(DType.F32, (400, 500))
    normal = draw("w", type, 0, TensorInit(scheme="normal", mean=2.0, std=0.5))
    assert abs(normal.mean() - 2) < 0.01 and abs(normal.std() - 0.5) < 0.01
    kaiming = draw("w", type, 0, TensorInit(scheme="kaiming"))
    assert abs(kaiming.std() - np.sqrt(2 / 500)) < 1e-3
    uniform = draw("w", type, 0, TensorInit(scheme="uniform", low=3, high=4))
    assert uniform.min() >= 3 and uniform.max() < 4 and abs(uniform.mean() - 3.5) < 0.01
    xavier = draw("w", type, 0, TensorInit(scheme="xavier"))
    assert abs(xavier).max() <= np.sqrt(6 / 900)
    assert not np.array_equal(
        normal, draw("v", type, 0, TensorInit(scheme="normal", mean=2.0, std=0.5))
    )
    assert draw("w", Type(DType.F32, (0, 3)), 0, TensorInit()).shape == (0, 3)


def test_schemes_by_name() -> None:
    init = InitSpec(
        seed=0,
        scheme="xavier",
        tensors={"a.*": "ones", "*.weight": TensorInit(scheme="constant", value=3)},
    )
    wide, flat = Type(DType.F32, (3, 4)), Type(DType.F32, (3,))
    assert scheme_of("a.weight", wide, init).scheme == "ones"
    assert scheme_of("b.weight", wide, init).value == 3
    assert scheme_of("b.bias", flat, init).scheme == "zeros"
    assert scheme_of("b.variance", flat, init).scheme == "ones"
    assert scheme_of("b.table", wide, init).scheme == "xavier"


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a|b*)*c",
        "(a*)*",
        "(.*a){20}",
        r"(a)\1",
        "(?=a)b",
        "a*b*c*d*e*",
        "[",
        "(" * 5000,
        "a{2}{3}{400}*",
    ],
)
def test_regular_expressions_that_could_hang_are_refused(pattern: str) -> None:
    assert unsafe(pattern) is not None


@pytest.mark.parametrize(
    "pattern", [r"^encoder\.layer\.(\d+)\.(.*)$", "gamma", "(?i)Weight$", r"(a|b)\.(c|d)", "x{1,3}"]
)
def test_ordinary_regular_expressions_are_allowed(pattern: str) -> None:
    assert unsafe(pattern) is None


def test_renaming_ends(tmp_path: Path) -> None:
    names = {"a" * 250 + str(i): np.zeros(1, np.float32) for i in range(40)}
    save_file(names, tmp_path / "a.safetensors")
    with pytest.raises(SourceError):
        load(spec(tmp_path, "weights: {file: a.safetensors, rename: {'^a*a*a*x$': b}}"))


def test_weights_are_made_when_they_are_read(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(LINEAR.replace("units: 4", "units: 100000000") + "weights: {init: {seed: 0}}\n")
    tracemalloc.start()
    try:
        model = load(file)
        assert len(model.weights) == 2 and tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
