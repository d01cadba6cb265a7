"""Files that Keras 2 wrote, .h5 and .keras, give what it predicts: keras2.npz holds both."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

import xlac
import xlac.frontends.keras.keras2
from xlac.frontends.keras.registry import LAMBDAS
from xlac.frontends.loader import load
from xlac.ir.verify import verify
from xlac_sdk.source import SourceError

with np.load(Path(__file__).parent / "keras2.npz") as held:
    RECORDED = {name: held[name] for name in held.files}
FILES = [name for name in RECORDED if name.endswith(("/h5", "/keras"))]
LIMIT = 2e-6  # of the largest result


def written(name: str, folder: Path) -> Path:
    """The file of a case, CASE/SUFFIX."""
    file = folder / f"model.{name.rpartition('/')[2]}"
    file.write_bytes(bytes(RECORDED[name]))
    return file


@pytest.mark.parametrize("name", FILES)
@pytest.mark.sampled(3)
def test_a_file_of_keras_2_gives_what_it_gives(name: str, tmp_path: Path) -> None:
    file, case = written(name, tmp_path), name.partition("/")[0]
    verify(load(file).graph)
    results: Any = xlac.compile(file, target="reference")(RECORDED[f"{case}/in"])
    listed = list(results.values()) if isinstance(results, dict) else [results]
    count = sum(key.startswith(f"{case}/out/") for key in RECORDED)
    wanted = [RECORDED[f"{case}/out/{n}"] for n in range(count)]
    for mine, theirs in zip(listed, wanted, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        limit = LIMIT * np.nanmax(np.abs(theirs), initial=1)
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=limit)


def renamed(file: Path, function: str, arguments: dict[str, Any]) -> Path:
    """The file of functions, with another one in the place of a rectifier, called otherwise."""
    with h5py.File(file, "r+") as model:
        config = json.loads(model.attrs["model_config"])
        lambdas = [part["config"] for part in config["config"]["layers"] if "inbound_nodes" in part]
        next(c for c in lambdas if c.get("function") == "nn.relu6")["function"] = function
        changed = next(
            c for c in config["config"]["layers"] if c["config"].get("function") == function
        )
        changed["inbound_nodes"][0][3] = arguments
        del model.attrs["model_config"]
        model.attrs["model_config"] = json.dumps(config)
    return file


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        ("raw_ops.Mystery", {}, "the function tf.raw_ops.Mystery is not supported"),
        ("einsum", {}, "do not say what tf.einsum is called with"),
        ("tile", {"multiples": "x"}, "multiples is 'x'"),
        ("reshape", {}, "missing a required argument: 'shape'"),
        ("split", {"num_or_size_splits": [1, -1]}, "left open"),
        ("linalg.matmul", {"b": ["x", 0, 0], "adjoint_b": True}, "adjoint"),
    ],
)
def test_functions_that_do_not_fit(
    function: str, arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = renamed(written("functions/h5", tmp_path), function, arguments)
    with pytest.raises(SourceError, match=said.replace(".", r"\.")):
        load(file)


def test_every_function_of_tensorflow_has_a_case() -> None:
    """Under one of its names; of three Keras 2 does not save all operands."""
    used = {
        LAMBDAS[layer["config"].get("function", "__operators__.getitem")]
        for name in FILES
        if name.endswith("/h5")
        for layer in _layers(RECORDED[name])
        if layer["class_name"] in ("TFOpLambda", "SlicingOpLambda")
    }
    lacking = {name for name, function in LAMBDAS.items() if function not in used}
    assert lacking == {"einsum", "__operators__.eq", "__operators__.ne"}


def _layers(data: np.ndarray) -> list[dict[str, Any]]:
    with h5py.File(io.BytesIO(bytes(data))) as model:
        layers: list[dict[str, Any]] = json.loads(model.attrs["model_config"])["config"]["layers"]
        return layers
