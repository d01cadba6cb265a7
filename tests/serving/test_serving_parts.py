"""What serving needs of no server: tensors of the protocol, settings, models that are served."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from serving import SCORES, spec

from xlac.api import compile
from xlac.artefact.loader import load
from xlac.cli import status
from xlac.integrations.serving.batch_axis import batch_size, row_limit
from xlac.integrations.serving.protocol import TYPES, WireTensor
from xlac.integrations.serving.served import ServedModel
from xlac.integrations.serving.serving_options import ServingOptions
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import SourceError


def model(folder: Path, inputs: str, graph: str, dims: str = "n: {min: 1, max: 8}") -> Path:
    """A spec with one line of each."""
    text = f"xlac: 1\ndims: {{{dims}}}\ninputs: {{{inputs}}}\ngraph:\n  {graph}\noutputs: [y]\n"
    return spec(folder, text)


def tensor(name: str, array: Array, datatype: str = "") -> WireTensor:
    """An array as a request has it."""
    kind = datatype or TYPES[DType.of(array.dtype)]
    return WireTensor(name, kind, array.shape, array.ravel().tolist())


def answer(served: ServedModel, *tensors: WireTensor, wanted: Any = ()) -> dict[str, WireTensor]:
    """The outputs of one request by name."""
    return {t.name: t for t in asyncio.run(served.answer(tensors, wanted))}


def code(caught: pytest.ExceptionInfo[SourceError]) -> str:
    """The number of an error."""
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_every_type_goes_there_and_back(tmp_path: Path, dtype: DType) -> None:
    """The largest and least numbers of each, in two dimensions and flat or nested lists."""
    served = ServedModel.open(
        model(tmp_path, f'x: "{dtype}[n, 2]"', "y: reshape(x, [n, 2])"), _no()
    )
    given = served.inputs[0]
    assert (given.name, given.shape) == ("x", (-1, 2))
    numbers: list[Any] = [0, 1, 1, 0]
    if dtype.is_integer:
        about = np.iinfo(dtype.numpy)
        numbers = [about.min, about.max, 1, 0]
    elif dtype.is_float:
        numbers = [-1.5, 0.0, 65280.0, 2.0**-10]
    array = np.array(numbers, np.float32 if dtype is DType.BF16 else dtype.numpy).reshape(2, 2)
    for data in (array.ravel().tolist(), array.tolist()):
        got = answer(served, WireTensor("x", given.datatype, (2, 2), data))["y"]
        assert got == WireTensor("y", served.outputs[0].datatype, (2, 2), array.ravel().tolist())


def _no() -> ServingOptions:
    return ServingOptions()


@pytest.mark.parametrize(
    ("changed", "number", "problem"),
    [
        ({"datatype": "FP64"}, "XL6002", "input 'x' must be f32, not FP64"),
        ({"datatype": "BYTES"}, "XL6002", "must be f32, not BYTES"),
        ({"shape": (2, 8), "data": [0.0] * 16}, "XL6003", "must have shape nx16, not 2x8"),
        ({"shape": (16,), "data": [0.0] * 16}, "XL6003", "must have shape nx16"),
        ({"data": [0.0] * 31}, "XL6003", r"31 numbers for its shape \[2, 16\], which takes 32"),
        ({"shape": (-2, -16)}, "XL6003", "not -2x-16"),
        ({"shape": (65, 16), "data": [0.0] * 1040}, "XL6003", "n=65 is outside its bounds 1..64"),
        ({"data": [None] * 32}, "XL6002", "it holds a NoneType"),
        ({"data": ["1"] * 32}, "XL6002", "it holds text"),
        ({"data": [1e39] * 32}, "XL6002", "which cannot hold 1e"),
        ({"name": "z"}, "XL6001", "unknown input 'z'"),
    ],
)
def test_what_a_call_would_refuse(
    tmp_path: Path, changed: Mapping[str, Any], number: str, problem: str
) -> None:
    served = ServedModel.open(spec(tmp_path, SCORES), _no())
    given = tensor("x", np.zeros((2, 16), np.float32))
    with pytest.raises(SourceError, match=problem) as caught:
        answer(served, given._replace(**changed))
    assert code(caught) == number


def test_names_of_inputs_and_outputs(tmp_path: Path) -> None:
    served = ServedModel.open(spec(tmp_path, SCORES), _no())
    given = tensor("x", np.ones((2, 16), np.float32))
    assert list(answer(served, given)) == ["p", "best"]
    assert list(answer(served, given, wanted=["best"])) == ["best"]
    for tensors, wanted, problem in (
        ([], (), "input 'x' is missing"),
        ([given, given], (), "input 'x' is given twice"),
        ([given], ["best", "q"], "unknown output 'q'"),
    ):
        with pytest.raises(SourceError, match=problem):
            answer(served, *tensors, wanted=wanted)


def test_an_artefact_is_served_as_it_was_built(tmp_path: Path) -> None:
    place = spec(tmp_path, SCORES)
    assert status(["build", str(place), "-o", str(tmp_path / "a"), "--dim", "n"]) == 0
    served = ServedModel.open(tmp_path / "a", ServingOptions(batching=True))
    assert served.limit == 64
    x = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
    want = load(tmp_path / "a")(x=x)
    got = answer(served, tensor("x", x))
    np.testing.assert_array_equal(np.float32(got["p"].data).reshape(3, 8), want["p"])
    np.testing.assert_array_equal(got["best"].data, want["best"])
    with pytest.raises(SourceError, match="has the target and threads that it was built for"):
        ServedModel.open(tmp_path / "a", ServingOptions(threads=2))
    with pytest.raises(SourceError, match="is no artefact"):
        ServedModel.open(tmp_path, _no())


def test_sizes_that_data_decide(tmp_path: Path) -> None:
    """They are -1 in the description, results are cut to them, and nothing is joined."""
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [8])], [info("y", TensorProto.INT64, [1, None])]
    graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "g", *ends)
    sets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=sets), str(tmp_path / "m.onnx"))
    served = ServedModel.open(tmp_path / "m.onnx", _no())
    assert [(t.name, t.datatype, t.shape) for t in served.outputs] == [("y", "INT64", (1, -1))]
    got = answer(served, tensor("x", np.float32([0, 1, 0, 2, 0, 0, 3, 0])))["y"]
    assert (got.shape, got.data) == ((1, 3), [1, 3, 6])
    with pytest.raises(SourceError, match="sizes of its outputs depend on data"):
        ServedModel.open(tmp_path / "m.onnx", ServingOptions(batching=True))


def test_a_model_with_state_is_refused(tmp_path: Path) -> None:
    text = SCORES.replace("outputs", "  t: total + sum(h)\noutputs").replace(
        "weights:", "state: {total: {type: f32, next: t}}\nweights:"
    )
    with pytest.raises(SourceError, match="a model with state") as caught:
        ServedModel.open(spec(tmp_path, text), _no())
    assert code(caught) == "XL7818"


@pytest.mark.parametrize(
    ("inputs", "graph", "dims", "reason"),
    [
        ('x: "f32[4]"', "y: relu(x)", "", "begins with 4, which is no open size"),
        ('x: "f32[]"', "y: relu(x)", "", "'x' is a scalar"),
        ('x: "f32[2*n]"', "y: relu(x)", "n: {max: 8}", r"begins with 2\*n, which is no open"),
        ('x: "f32[n, 4]"', "y: sum(x)", "n: {max: 8}", "output 'y' is a scalar"),
        ('x: "f32[n, 4]", z: "f32[m]"', "y: relu(x)", "n: {max: 8}, m: {max: 8}", "size m, others"),
        ('x: "f32[n, 4]"', "y: matmul(x, transpose(x))", "n: {max: 8}", "size n in another axis"),
        ('x: "f32[n, 4]"', "y: x - mean(x, axis=0)", "n: {max: 8}", "depend on other rows"),
        ('x: "f32[n, 4]"', "y: cumsum(x, axis=0)", "n: {max: 8}", "depend on other rows"),
        ('x: "i32[n, 4]"', "y: cumsum(x, axis=0)", "n: {max: 8}", "depend on other rows"),
        ('x: "f32[n, 4]"', "y: relu(x)", "n: {min: 1, max: 1}", "joins nothing"),
    ],
)
def test_requests_that_cannot_be_joined(
    tmp_path: Path, inputs: str, graph: str, dims: str, reason: str
) -> None:
    """Each without batching is served."""
    place = model(tmp_path, inputs, graph, dims)
    ServedModel.open(place, _no()).close()
    with pytest.raises(SourceError, match=reason) as caught:
        ServedModel.open(place, ServingOptions(batching=True))
    assert code(caught) == "XL7818"


def test_the_rows_of_a_call(tmp_path: Path) -> None:
    size = batch_size(compile(spec(tmp_path, SCORES), sizes="symbolic").program)  # type: ignore[union-attr]
    assert (row_limit(size, None), row_limit(size, 20)) == (64, 20)
    with pytest.raises(SourceError, match="size n is at most 64"):
        row_limit(size, 65)


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({"batchng": True}, "unknown setting 'batchng'"),
        ({"target": 3}, "target is the name"),
        ({"threads": 0}, "threads is a whole number from 1, not 0"),
        ({"threads": True}, "not True"),
        ({"batching": 8}, "batching is true, false, or its rows and wait"),
        ({"batching": {"row": 8}}, "unknown setting 'row' in batching"),
        ({"batching": {"rows": 1.5}}, "rows is a whole number"),
        ({"batching": {"wait": -1}}, "wait is seconds"),
        ({"batching": {"wait": float("nan")}}, "wait is seconds"),
    ],
)
def test_settings_that_are_refused(extra: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as caught:
        ServingOptions.of(extra)
    assert code(caught) == "XL7818"


def test_settings() -> None:
    assert ServingOptions.of({}) == ServingOptions(None, None, False, None, 0.0)
    assert ServingOptions.of({"target": "c", "threads": 2, "batching": True}) == ServingOptions(
        "c", 2, True, None, 0.0
    )
    some = {"batching": {"rows": 32, "wait": 1}}
    assert ServingOptions.of(some) == ServingOptions(None, None, True, 32, 1.0)


def test_a_server_that_is_not_installed_is_one_line() -> None:
    program = (
        "import sys; sys.modules['mlserver'] = None\n"
        "import xlac\n"
        "try: import xlac.integrations.mlserver\n"
        "except xlac.SourceError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "needs the package mlserver, which is not installed [XL7010]" in run.stdout
    assert "pip install 'xlac[serve]'" in run.stdout
