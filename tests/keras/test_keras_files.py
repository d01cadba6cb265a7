"""Keras files that are damaged or hostile are refused with their place and reason, all problems at
once; files as Keras writes them, in both formats, are read.
"""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
from keras_writer import EXPECTED, archived, write

import xlac
from xlac.frontends.keras.file import archive
from xlac.frontends.loader import load
from xlac.support import extras
from xlac_sdk.source import SourceError, XlacError

WHOLE = sorted(EXPECTED.by_case["whole"])


def refusal(file: Path) -> str:
    """The message with which a file is refused."""
    with pytest.raises(SourceError) as caught:
        load(file)
    return str(caught.value)


def changed(case: str, file: Path, change: Callable[[Any], None]) -> Path:
    """The file of a case with a change of its configuration."""
    config = json.loads(EXPECTED.text(case))
    change(config)
    archived(case, file, json.dumps(config))
    return file


def layer(config: Any, kind: str) -> Any:
    """The first layer of a class in a configuration."""
    return next(part for part in config["config"]["layers"] if part["class_name"] == kind)


def hdf5(fill: Callable[[Any], None]) -> bytes:
    """An HDF5 file."""
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        fill(file)
    return held.getvalue()


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.sampled(2)
def test_files_as_keras_writes_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(bytes(EXPECTED.by_case["whole"][name]))
    case = file.stem
    inputs, outputs = (EXPECTED.part(case, side) for side in ("in", "out"))
    found: Any = xlac.compile(file, target="reference")(*inputs)
    np.testing.assert_allclose(found, outputs[0], rtol=0, atol=2e-6 * np.abs(outputs[0]).max())


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    def change(config: Any) -> None:
        first, second = (p for p in config["config"]["layers"] if p["class_name"] == "Dense")
        first["class_name"] = "Lambda"
        second |= {"class_name": "Dense", "module": "__main__", "registered_name": "mine>Dense"}

    said = refusal(changed("two_outputs", tmp_path / "model.keras", change))
    assert "(Lambda): its function is Python code, which is never run" in said
    assert "layer 'score' (Dense): the class __main__.Dense is not Keras's own" in said
    assert said.count("XL7602") == 2


@pytest.mark.parametrize(
    ("case", "kind", "values", "said"),
    [
        ("Dense", "Dense", {"units": 4}, "'kernel' has shape [4, 3], and should [4, 4]"),
        ("Dense", "Dense", {"units": "3"}, "units is '3', not an integer"),
        ("Dense", "Dense", {"activation": "mine"}, "the activation 'mine' is not supported"),
        ("Dense", "Dense", {"dtype": "mixed_float16"}, "policy 'mixed_float16'"),
        ("Conv2D", "Conv2D", {"strides": [0, 1]}, "strides is [0, 1], not 2 integers"),
        ("Conv2D", "Conv2D", {"padding": "other"}, "padding 'other' is not supported"),
        ("Conv2D", "Conv2D", {"groups": 3}, "do not divide into 3 groups"),
        ("LSTM", "LSTM", {"stateful": True}, "it is stateful, and the batch batch is open"),
        ("ConvLSTM1D", "ConvLSTM1D", {"padding": "other"}, "padding 'other' is not supported"),
        ("Masking", "Masking", {"mask_value": "0"}, "mask_value is '0', not a number"),
        ("mask_ConvLSTM2D", "ConvLSTM2D", {"kernel_size": [3]}, "kernel_size is [3], not 2"),
        (
            "mask_to_TimeDistributed",
            "TimeDistributed",
            {"layer": {"class_name": "Softmax", "module": "keras.layers", "config": {}}},
            "Softmax in it, called with a mask, is not supported",
        ),
        ("RNN", "RNN", {"cell": {"class_name": "X", "config": {}}}, "cells of class X"),
        ("Flatten", "InputLayer", {"dtype": "string"}, "input 'x0' is of type string"),
        ("Flatten", "InputLayer", {"batch_shape": [None, -3]}, "has no shape"),
        ("Reshape", "Reshape", {"target_shape": [5, -1]}, "does not become [5, -1]"),
        ("IntegerLookup_0", "IntegerLookup", {"vocabulary": None}, "is not in the file"),
        ("IntegerLookup_0", "IntegerLookup", {"vocabulary": [1, 2, 1]}, "has a token twice"),
        ("IntegerLookup_0", "IntegerLookup", {"vocabulary": ["a"]}, "not a list of integers"),
        ("IntegerLookup_0", "IntegerLookup", {"vocabulary": [1 << 63]}, "not a list of integers"),
        ("IntegerLookup_0", "IntegerLookup", {"mask_token": 1 << 63}, "not an integer of 64 bits"),
        ("IntegerLookup_7", "IntegerLookup", {"vocabulary": [5]}, "should [2]"),
        ("MelSpectrogram", "MelSpectrogram", {"window": [1.0]}, "has not the 128 factors"),
        ("MelSpectrogram", "MelSpectrogram", {"fft_length": 2048}, "do not go together"),
        ("STFTSpectrogram", "STFTSpectrogram", {"mode": "other"}, "mode 'other'"),
        ("MelSpectrogram", "MelSpectrogram", {"num_mel_bins": 1 << 30}, "needs a constant of"),
        (
            "AdaptiveMaxPooling1D_uneven",
            "AdaptiveMaxPooling1D",
            {"output_size": [1 << 30]},
            "needs a constant of",
        ),
        (
            "ContrastLimitedAdaptiveHistogramEqualization",
            "ContrastLimitedAdaptiveHistogramEqualization",
            {"tile_grid_size": [1 << 30, 1]},
            "needs a constant of",
        ),
        ("AutoContrast", "AutoContrast", {"value_range": [1, "2"]}, "not two numbers"),
    ],
)
def test_a_layer_that_does_not_fit(
    case: str, kind: str, values: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = changed(
        case, tmp_path / "model.keras", lambda config: layer(config, kind)["config"].update(values)
    )
    assert said in refusal(file)


def test_a_circle_of_layers_and_a_missing_one(tmp_path: Path) -> None:
    def circle(config: Any) -> None:
        call = layer(config, "Dense")["inbound_nodes"][0]
        call["args"][0]["config"]["keras_history"][0] = layer(config, "Dense")["name"]

    def nowhere(config: Any) -> None:
        call = layer(config, "Dense")["inbound_nodes"][0]
        call["args"][0]["config"]["keras_history"][0] = "nowhere"

    assert "a circle of layers" in refusal(changed("Dense", tmp_path / "a.keras", circle))
    assert "takes a result of 'nowhere'" in refusal(changed("Dense", tmp_path / "b.keras", nowhere))


def test_models_too_deep_in_each_other(tmp_path: Path) -> None:
    config: Any = {"class_name": "Dense", "config": {"units": 1}}
    for number in range(300):
        config = {"class_name": "Sequential", "config": {"name": f"s{number}", "layers": [config]}}
    config["config"]["build_input_shape"] = [None, 2]
    write(tmp_path / "model.keras", json.dumps(config), hdf5(lambda file: None))
    assert "too deep" in refusal(tmp_path / "model.keras")
    write(tmp_path / "model.keras", "[" * 100_000, hdf5(lambda file: None))
    assert "not JSON" in refusal(tmp_path / "model.keras")


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (lambda at: None, "its weight 'kernel' is missing"),
        (
            lambda at: at.__setitem__("0", h5py.ExternalLink("other.h5", "/secret")),
            "'/layers/dense/vars/0' is a link to '/secret' in 'other.h5'",
        ),
        (lambda at: at.__setitem__("0", h5py.SoftLink("/x")), "is a link to '/x'"),
        (
            lambda at: at.create_dataset(
                "0", (4, 3), "f4", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)]
            ),
            "is in another file, '/etc/passwd'",
        ),
        (lambda at: at.create_virtual_dataset("0", _virtual()), "is made of arrays of other files"),
        (lambda at: at.create_dataset("0", (4, 3), "f4", compression="gzip"), "is compressed"),
        (
            lambda at: at.create_dataset("0", (1 << 20, 1 << 20), "f4"),
            "has fewer bytes in the file than its elements need",
        ),
        (lambda at: at.__setitem__("0", "text"), "holds no numbers"),
        (lambda at: at.create_group("0"), "is not an array"),
    ],
)
def test_weights_that_reach_out_or_are_too_large(
    fill: Callable[[Any], Any], said: str, tmp_path: Path
) -> None:
    data = hdf5(lambda file: fill(file.create_group("layers/dense/vars")))
    write(tmp_path / "model.keras", EXPECTED.text("Dense"), data)
    assert said in refusal(tmp_path / "model.keras")


def _virtual() -> Any:
    layout = h5py.VirtualLayout(shape=(4, 3), dtype="f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=(4, 3))
    return layout


def test_a_member_that_unpacks_to_far_more_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "FREE_BYTES", 0)
    file = tmp_path / "model.keras"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("config.json", EXPECTED.text("Dense"))
        held.writestr("model.weights.h5", bytes(1 << 22))
    assert "'model.weights.h5' unpacks to 4194304 bytes" in refusal(file)


def test_a_vocabulary_beside_the_configuration(tmp_path: Path) -> None:
    file, name = tmp_path / "model.keras", "IntegerLookup_adapted_int"
    member = next(n for n in EXPECTED.by_case[name] if n.startswith("assets/"))
    text, weights = EXPECTED.text(name), hdf5(lambda file: None)
    write(file, text, weights, {member: b"1\n2\nthree"})
    assert "holds something that is no integer" in refusal(file)
    write(file, text, weights, {member: b"\xff"})
    assert f"member '{member}' cannot be read" in refusal(file)
    write(file, text, weights, {member: b"\n"})
    assert "not a list of integers" in refusal(file)


def test_files_that_are_no_models(tmp_path: Path) -> None:
    file = tmp_path / "model.keras"
    with zipfile.ZipFile(file, "w") as held:
        held.writestr("metadata.json", "{}")
    assert "its member 'config.json' is missing" in refusal(file)
    write(file, json.dumps({"class_name": "Mine", "config": {}}), hdf5(lambda file: None))
    assert "Mine is a class of its own" in refusal(file)
    weights = tmp_path / "weights.h5"
    weights.write_bytes(hdf5(lambda file: None))
    assert "weights alone and no configuration" in refusal(weights)


@pytest.mark.parametrize("name", [name for name in WHOLE if name.startswith("nested")])
def test_files_with_changed_bytes_are_refused_or_read(name: str, tmp_path: Path) -> None:
    """Each of these ends with a model or an error of ours."""
    data, source, file = bytes(EXPECTED.by_case["whole"][name]), random.Random(3), tmp_path / name
    for size in range(0, len(data), len(data) // 40):
        file.write_bytes(data[:size])
        with pytest.raises(XlacError):
            load(file)
    for _ in range(60):
        bytes_of = bytearray(data)
        for _ in range(source.randint(1, 3)):
            bytes_of[source.randrange(len(data))] = source.choice([0, 1, 0x7F, 0x80, 0xFF])
        file.write_bytes(bytes_of)
        try:
            load(file)
        except XlacError as error:
            assert str(error)


def test_a_missing_h5py_is_one_line_with_the_command() -> None:
    said = extras.missing(ModuleNotFoundError("no", name="h5py"), "'model.keras'")
    assert "needs the package h5py, which is not installed" in str(said)
    assert "pip install 'xlac[keras]'" in str(said)


def test_open_sizes_and_set_values(tmp_path: Path) -> None:
    archived("open", tmp_path / "model.keras")
    assert set(load(tmp_path / "model.keras").dims) == {"batch", "x0_1"}
    assert set(load(tmp_path / "model.keras", dims={"batch": 3}).dims) == {"x0_1"}
    assert not load(tmp_path / "model.keras", params={"x0": np.zeros((1, 2, 4))}).inputs


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize(("number", "size"), [(0, 0), (0, 8), (0, 1 << 40), (1, (1 << 64) - 9)])
def test_texts_whose_sizes_do_not_add_up_are_refused(
    archive: bool, number: int, size: int, tmp_path: Path
) -> None:
    """libhdf5 goes through a collection by the sizes in it, for ever where one is 0."""
    data = hdf5(lambda file: file.attrs.update({"model_config": "{}", "layer_names": ["a" * 99]}))
    start = data.index(b"GCOL") + 16
    first = int.from_bytes(data[start + 8 : start + 16], "little")
    for at in (start, start + 16 + (first + 7) // 8 * 8):
        damaged = bytearray(data)
        struct.pack_into("<HHIQ", damaged, at, number, 0, 0, size)
        file = tmp_path / ("m.keras" if archive else "m.h5")
        if archive:
            with zipfile.ZipFile(file, "w") as made:
                made.writestr("config.json", "{}")
                made.writestr("model.weights.h5", bytes(damaged))
        else:
            file.write_bytes(damaged)
        assert "do not add up" in refusal(file)
