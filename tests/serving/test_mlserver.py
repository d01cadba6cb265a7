"""Models on MLServer, asked by tritonclient over HTTP and gRPC. `make test-serve`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from serving import SCORES, WITHOUT, Started, infer, server, settings

from xlac.artefact.loader import load
from xlac.cli import status
from xlac_sdk.dtypes import Array

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(WITHOUT), reason=f"{WITHOUT} is not installed: make test-serve"),
]

LAYER = """\
xlac: 1
dims: {n: {min: 1, max: 8}, s: {min: 1, max: 32}}
inputs: {x: "f32[n, s, 16]"}
weights: {init: {seed: 0}}
graph:
  h: {op: linear, in: x, units: 8}
  y: softmax(h, axis=1)
outputs: [y]
"""
QUOTIENT = """\
xlac: 1
dims: {n: {min: 1, max: 8}}
inputs: {x: "i32[n]", z: "i32[n]"}
graph:
  y: x / z
outputs: [y]
"""
MEAN = """\
xlac: 1
dims: {n: {min: 1, max: 8}}
inputs: {x: "f32[n]"}
graph:
  y: x - mean(x)
outputs: [y]
"""
KINDS = ("f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")
EVERY = "xlac: 1\ninputs:\n{}graph:\n{}outputs: [{}]\n".format(
    "".join(f'  {kind}: "{kind}[2, 2]"\n' for kind in KINDS),
    "".join(f"  {kind}_: transpose({kind})\n" for kind in KINDS),
    ", ".join(f"{kind}_" for kind in KINDS),
)
PROTOCOLS = ("http", "grpc")


@pytest.fixture(scope="module", params=[0, 1], ids=["inside", "worker"])
def started(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Started]:
    """A server whose models are in its own process, or in another one."""
    folder = tmp_path_factory.mktemp("models")
    for name, text, options in (
        ("scores", SCORES, ["--dim=n"]),
        ("layer", LAYER, ["--dim=n", "--dim=s"]),
        ("quotient", QUOTIENT, ["--dim=n", "--checked"]),
    ):
        (folder / f"{name}.yaml").write_text(text, "utf-8")
        built = folder / name / "model"
        assert status(["build", str(folder / f"{name}.yaml"), "-o", str(built), *options]) == 0
    settings(folder, "scores", "./model", batching=True)
    settings(folder, "layer", "./model", batching={"rows": 8, "wait": 600})
    settings(folder, "quotient", "./model", batching={"rows": 4, "wait": 600})
    (folder / "kinds.yaml").write_text(EVERY, "utf-8")
    settings(folder, "kinds", "../kinds.yaml", target="reference")
    with server(folder, parallel_workers=request.param) as found:
        yield found


def client(started: Started, protocol: str) -> Any:
    """A client of tritonclient."""
    port = started.http if protocol == "http" else started.grpc
    kind = import_module(f"tritonclient.{protocol}")
    return kind.InferenceServerClient(f"127.0.0.1:{port}")


def ask(started: Started, protocol: str, model: str, outputs: Any = (), **arrays: Array) -> Any:
    """Results of a request, all outputs or those by name."""
    kind = import_module(f"tritonclient.{protocol}")
    kinds = import_module("tritonclient.utils")
    given = []
    for name, array in arrays.items():
        of_type = kinds.np_to_triton_dtype(array.dtype)
        given.append(kind.InferInput(name, list(array.shape), of_type))
        given[-1].set_data_from_numpy(
            array, **({"binary_data": False} if protocol == "http" else {})
        )
    about = {"binary_data": False} if protocol == "http" else {}
    wanted = [kind.InferRequestedOutput(name, **about) for name in outputs]
    with client(started, protocol) as asked:
        return asked.infer(model, given, outputs=wanted or None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_health_and_metadata(started: Started, protocol: str) -> None:
    with client(started, protocol) as asked:
        assert asked.is_server_live() and asked.is_server_ready()
        assert asked.is_model_ready("scores")
        form = {} if protocol == "http" else {"as_json": True}
        said = asked.get_model_metadata("scores", **form)
    assert said["platform"] == "xlac_cpu"
    found = {
        tensor["name"]: (tensor["datatype"], list(map(int, tensor["shape"])))
        for tensor in said["inputs"] + said["outputs"]
    }
    assert found == {"x": ("FP32", [-1, 16]), "p": ("FP32", [-1, 8]), "best": ("INT64", [-1])}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_results_are_those_of_a_call(started: Started, protocol: str) -> None:
    model = load(started.log.parent / "scores" / "model")
    x = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float32)
    want = model(x=x)
    got = ask(started, protocol, "scores", x=x)
    np.testing.assert_array_equal(got.as_numpy("p"), want["p"])
    np.testing.assert_array_equal(got.as_numpy("best"), want["best"])
    some = ask(started, protocol, "scores", ["best"], x=x)
    assert some.as_numpy("p") is None
    np.testing.assert_array_equal(some.as_numpy("best"), want["best"])


def test_every_type_by_grpc(started: Started) -> None:
    """In the server's raw form. bf16 is FP32 there."""
    arrays: dict[str, Array] = {}
    for kind in KINDS:
        numpy_type = {"bf16": "float32", "bool": "bool"}.get(
            kind, kind.replace("f", "float").replace("u", "uint").replace("i", "int")
        )
        numpy_type = numpy_type.replace("uintnt", "uint")
        arrays[kind] = np.array([[1, 0], [0, 1]]).astype(numpy_type)
        if kind[0] in "iu":
            arrays[kind][0, 0] = np.iinfo(numpy_type).max
    got = ask(started, "grpc", "kinds", **arrays)
    for kind, array in arrays.items():
        result = got.as_numpy(f"{kind}_")
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array.T)


def test_every_type_by_http(started: Started) -> None:
    with client(started, "http") as asked:
        types = asked.get_model_metadata("kinds")["inputs"]
    numbers = {"BOOL": [True, False, False, True]}
    tensors = [{**t, "data": numbers.get(t["datatype"], [1, 2, 3, 4])} for t in types]
    code, said = infer(started.http, "kinds", {"inputs": tensors})
    assert code == 200, said
    for given, got in zip(tensors, said["outputs"], strict=True):
        assert (got["datatype"], got["shape"]) == (given["datatype"], [2, 2])
        one, two, three, four = given["data"]
        assert got["data"] == [one, three, two, four]


def test_requests_at_once_are_one_call(started: Started) -> None:
    """Eight rows fill a call, for which the first waits. Those of another size are apart."""
    model = load(started.log.parent / "layer" / "model")
    generator = np.random.default_rng(0)
    shapes = [(1, 4), (2, 9), (3, 4), (1, 9), (2, 4), (5, 9), (2, 4)]
    xs = [generator.standard_normal((*shape, 16)).astype(np.float32) for shape in shapes]
    before = [started.metric(f"xlac_requests_in_call_{what}", "layer") for what in ("count", "sum")]

    def one(number: int) -> Array:
        found: Array = ask(started, PROTOCOLS[number % 2], "layer", x=xs[number]).as_numpy("y")
        return found

    with ThreadPoolExecutor(len(xs)) as pool:
        results = list(pool.map(one, range(len(xs))))
    for x, result in zip(xs, results, strict=True):
        np.testing.assert_allclose(result, model(x=x), rtol=1e-5, atol=1e-6)
    after = [started.metric(f"xlac_requests_in_call_{what}", "layer") for what in ("count", "sum")]
    assert [b - a for a, b in zip(before, after, strict=True)] == [2, 7]
    assert started.metric("model_infer_request_success_total", "layer") >= 7


def test_a_mistake_in_a_call_of_several_is_one_client_s(started: Started) -> None:
    """A division by zero, which the checked program finds; the other three are answered."""
    ones = np.ones(1, np.int32)

    def one(number: int) -> Any:
        try:
            got = ask(started, "grpc", "quotient", x=ones * 6, z=ones * number)
            return int(got.as_numpy("y")[0])
        except import_module("tritonclient.utils").InferenceServerException as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        *fine, wrong = pool.map(one, [1, 2, 3, 0])
    assert fine == [6, 3, 2]
    assert "XL6021" in str(wrong) and "INVALID_ARGUMENT" in str(wrong.status())


MISTAKES = [
    ({"datatype": "FP64"}, "input 'x' must be f32, not FP64 [XL6002]; it is FP32 in the protocol"),
    ({"shape": [1, 4, 4]}, "input 'x' must have shape nx16, not 1x4x4 [XL6003]"),
    ({"shape": [65, 16], "data": [0.0] * 1040}, "size n=65 is outside its bounds 1..64 [XL6003]"),
    ({"shape": [2, 16]}, "input 'x' has 16 numbers for its shape [2, 16], which takes 32 [XL6003]"),
    ({"data": ["a"] * 16}, "it holds text [XL6002]"),
    ({"name": "z"}, "unknown input 'z' [XL6001]"),
]


@pytest.mark.parametrize(("changed", "problem"), MISTAKES)
def test_a_mistake_is_status_400_and_says_what(
    started: Started, changed: dict[str, Any], problem: str
) -> None:
    given = {"name": "x", "datatype": "FP32", "shape": [1, 16], "data": [0.0] * 16, **changed}
    code, said = infer(started.http, "scores", {"inputs": [given]})
    assert code == 400 and problem in said["error"], said


def test_mistakes_by_grpc(started: Started) -> None:
    wrong = import_module("tritonclient.utils").InferenceServerException
    for arrays, outputs, problem in (
        ({"x": np.zeros((1, 16))}, (), "input 'x' must be f32, not FP64"),
        ({"x": np.zeros((1, 8), np.float32)}, (), "must have shape nx16, not 1x8"),
        ({"x": np.zeros((1, 16), np.float32)}, ["q"], "unknown output 'q'"),
    ):
        with pytest.raises(wrong, match=problem) as caught:
            ask(started, "grpc", "scores", outputs, **arrays)
        assert "INVALID_ARGUMENT" in str(caught.value.status())


def test_a_model_that_comes_and_goes(started: Started) -> None:
    """By the repository; one whose requests cannot be joined is refused with the reason."""
    folder = started.log.parent
    (folder / "mean.yaml").write_text(MEAN, "utf-8")
    settings(folder, "mean", "../mean.yaml", batching=True)
    wrong = import_module("tritonclient.utils").InferenceServerException
    try:
        with client(started, "grpc") as asked:
            with pytest.raises(wrong, match=r"rows of output 'y' depend on other rows.*XL7818"):
                asked.load_model("mean")
            settings(folder, "mean", "../mean.yaml")
            asked.load_model("mean")
            x = np.float32([1, 2, 6])
            got = ask(started, "grpc", "mean", x=x).as_numpy("y")
            np.testing.assert_allclose(got, [-2, -1, 3], rtol=1e-6)
            asked.unload_model("mean")
            with pytest.raises(wrong):
                ask(started, "grpc", "mean", x=x)
            assert asked.is_model_ready("scores")
    finally:
        (folder / "mean" / "model-settings.json").unlink()
