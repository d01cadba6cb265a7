"""Sizes that are symbols, and those that values of inputs decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from onnx_cases import INT64, agree, model, value

import xlac
from xlac.cli import status
from xlac.frontends.onnx import load
from xlac.model import Undecided
from xlac.runtime.specialization import Specializing
from xlac_sdk.source import SourceError

node = helper.make_node


def test_equal_names_are_one_size() -> None:
    proto = model(
        [node("Add", ["x", "y"], ["z"])],
        [value("x", ["batch", 3]), value("y", ["batch", 1])],
        [value("z", None)],
    )
    assert list(load(proto).dims) == ["batch"]
    program = xlac.compile(proto)
    assert isinstance(program, Specializing)
    for n in (1, 5):
        assert program(x=np.ones((n, 3), np.float32), y=np.ones((n, 1), np.float32)).shape == (n, 3)
    assert program.programs == 2
    with pytest.raises(SourceError, match="XL6003"):
        program(x=np.ones((2, 3), np.float32), y=np.ones((3, 1), np.float32))


def test_a_size_is_fixed_or_bounded_by_its_name() -> None:
    proto = model(
        [node("Relu", ["x"], ["z"])], [value("x", ["batch size", "N+1"])], [value("z", None)]
    )
    assert list(load(proto).dims) == ["batch_size", "N_1"]
    fixed = load(proto, dims={"batch size": 4, "N_1": "1..8"})
    assert fixed.inputs[0].shape[0] == 4
    assert (fixed.dims["N_1"].min, fixed.dims["N_1"].max) == (1, 8)
    with pytest.raises(SourceError, match="XL2014"):
        load(proto, dims={"batch size": "8..1"})


def test_shape_arithmetic_is_done_on_symbols() -> None:
    """What exporters write for x.reshape(x.shape[0], -1) and for a mask of the length."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "zero1"], ["n1"]),
        node("Concat", ["n1", "minus"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["z"]),
        node("Range", ["zero", "n", "one"], ["r"]),
    ]
    held = {
        "zero": np.asarray(0),
        "zero1": np.asarray([0]),
        "minus": np.asarray([-1]),
        "one": np.asarray(1),
    }
    proto = model(
        nodes, [value("x", ["n", 3, 4])], [value("z", None), value("r", None, INT64)], held
    )
    assert [str(n.type) for n in load(proto).graph.outputs.values()] == ["f32[n, 12]", "i64[n]"]
    agree(proto, {"x": np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)})


def test_values_that_decide_sizes_are_compiled_for_as_they_come() -> None:
    proto = model(
        [node("Reshape", ["x", "to"], ["z"])],
        [value("x", [6]), value("to", [2], INT64)],
        [value("z", None)],
    )
    with pytest.raises(Undecided, match=r"XL7006[\s\S]*--set to="):
        load(proto)
    program = xlac.compile(proto)
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [6, 1], [2, 3]):
        assert program(x=x, to=np.asarray(shape)).shape == tuple(shape)
    assert isinstance(program, Specializing) and program.programs == 3
    assert xlac.compile(proto, params={"to": [3, 2]})(x=x).shape == (3, 2)
    with pytest.raises(SourceError, match="XL6001"):
        program(x=x)


def test_one_deciding_value_may_lead_to_another() -> None:
    nodes = [node("Expand", ["x", "a"], ["e"]), node("Tile", ["e", "b"], ["z"])]
    inputs = [value("x", [1]), value("a", [1], INT64), value("b", [1], INT64)]
    proto = model(nodes, inputs, [value("z", None)])
    agree(proto, {"x": np.ones(1, np.float32), "a": np.asarray([3]), "b": np.asarray([2])})


def test_a_model_that_open_sizes_are_in_the_way_of_is_imported_for_each() -> None:
    """An exporter saw a batch of 1 and wrote it down, though it declared the size open."""
    nodes = [node("Reshape", ["x", "to"], ["y"]), node("Expand", ["y", "wide"], ["z"])]
    held = {"to": np.asarray([1, -1, 2]), "wide": np.asarray([1, 3, 2])}
    program = xlac.compile(model(nodes, [value("x", ["n", 6])], [value("z", None)], held))
    assert program(x=np.zeros((1, 6), np.float32)).shape == (1, 3, 2)
    with pytest.raises(SourceError, match="broadcast"):
        program(x=np.zeros((2, 6), np.float32))
    with pytest.raises(SourceError, match="--dim n="):
        load(model(nodes, [value("x", ["n", 6])], [value("z", None)], held))


def test_a_value_for_no_input_is_refused() -> None:
    proto = model([node("Relu", ["x"], ["z"])], [value("x", [2])], [value("z", None)])
    with pytest.raises(SourceError, match="XL2015"):
        load(proto, params={"xx": 1})


def test_the_command_line_gives_values_that_decide_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.onnx"
    proto = model(
        [node("Reshape", ["x", "to"], ["z"], name="shape it")],
        [value("x", [6]), value("to", [2], INT64)],
        [value("z", None)],
    )
    file.write_bytes(proto.SerializeToString())
    assert status(["check", str(file)]) == 2
    assert "--set to=" in capsys.readouterr().err
    assert status(["check", str(file), "--set", "to=[2, 3]"]) == 0
    assert "f32[2, 3]" in capsys.readouterr().out
    assert status(["run", str(file), "-t", "reference", "-i", "to=2xi64=3,2"]) == 0
    assert "z: float32[3, 2]" in capsys.readouterr().out


OPEN = {
    "ConvTranspose": (
        "float[n,c,h,w] x, float[c,o,kh,kw] k",
        "ConvTranspose<strides: ints = [2, 2], kernel_shape: ints = [3, 3]>(x, k)",
        [{"x": (1, 2, 4, 5), "k": (2, 3, 3, 3)}, {"x": (2, 1, 3, 3), "k": (1, 2, 3, 3)}],
    ),
    "GridSample": (
        "float[n,c,h,w] x, float[n,a,b,q] g",
        "GridSample(x, g)",
        [{"x": (1, 2, 4, 5), "g": (1, 3, 4, 2)}, {"x": (2, 1, 3, 3), "g": (2, 2, 2, 2)}],
    ),
    "DeformConv": (
        "float[n,c,h,w] x, float[o,c,kh,kw] k, float[n,of,oh,ow] d",
        "DeformConv(x, k, d)",
        [{"x": (1, 2, 5, 5), "k": (3, 2, 3, 3), "d": (1, 18, 3, 3)}],
    ),
    "Attention": (
        "float[b,s,d] q, float[b,t,dk] k, float[b,t,e] v",
        "Attention<q_num_heads: int = 4, kv_num_heads: int = 2>(q, k, v)",
        [{"q": (1, 3, 32), "k": (1, 5, 16), "v": (1, 5, 12)}],
    ),
}


@pytest.mark.parametrize("kind", OPEN)
def test_operators_whose_every_size_is_open(kind: str) -> None:
    inputs, call, shapes = OPEN[kind]
    ends = {3: "float[y0,y1,y2] y", 4: "float[y0,y1,y2,y3] y"}[len(next(iter(shapes[0].values())))]
    head = '<ir_version: 10, opset_import: ["" : 23]>'
    proto = parser.parse_model(f"{head}\nm ({inputs}) => ({ends}) {{ y = {call} }}")
    program, random = xlac.compile(proto), np.random.default_rng(3)
    for each in shapes:
        given = {n: random.uniform(-0.5, 0.5, s).astype(np.float32) for n, s in each.items()}
        (wanted,) = ReferenceEvaluator(proto).run(None, given)
        np.testing.assert_allclose(program(**given), wanted, 1e-4, 1e-4)


# with weights that are constants, of sizes that no guess has
FIXED = {
    "MatMul": ("float[n,c] x", "MatMul(x, w)", {"x": (2, 7)}, (7, 3)),
    "Conv": ("float[n,c,h,w] x", "Conv(x, w)", {"x": (1, 5, 6, 4)}, (6, 5, 3, 3)),
    "ConvTranspose": (
        "float[n,c,h,w] x",
        "ConvTranspose<group: int = 5>(x, w)",
        {"x": (2, 5, 4, 3)},
        (5, 1, 3, 3),
    ),
    "DeformConv": (
        "float[n,c,h,w] x, float[n,of,oh,ow] d, float[n,m,oh,ow] m",
        "DeformConv<group: int = 2, offset_group: int = 2>(x, w, d, , m)",
        {"x": (1, 10, 5, 6), "d": (1, 36, 3, 4), "m": (1, 18, 3, 4)},
        (4, 5, 3, 3),
    ),
    "GridSample": ("float[n,c,h,w] x", "GridSample(x, w)", {"x": (7, 3, 5, 4)}, (7, 3, 6, 2)),
    "Attention": (
        "float[b,s,d] q, float[b,t,e] k",
        "Attention<q_num_heads: int = 5, kv_num_heads: int = 5>(q, k, w)",
        {"q": (2, 3, 35), "k": (2, 6, 35)},
        (2, 6, 45),
    ),
}


@pytest.mark.parametrize("kind", FIXED)
def test_operators_with_constants_whose_other_sizes_are_open(kind: str) -> None:
    inputs, call, shapes, weight = FIXED[kind]
    random = np.random.default_rng(5)
    result = ",".join(f"y{n}" for n in range(3 if kind == "Attention" else len(weight)))
    head = '<ir_version: 10, opset_import: ["" : 23]>'
    call = call.replace("w)", "weight)").replace("w,", "weight,")
    proto = parser.parse_model(f"{head}\nm ({inputs}) => (float[{result}] y) {{ y = {call} }}")
    values = random.uniform(-0.5, 0.5, weight).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(values, "weight"))
    given = {n: random.uniform(-0.5, 0.5, s).astype(np.float32) for n, s in shapes.items()}
    (wanted,) = ReferenceEvaluator(proto).run(None, given)
    program = xlac.compile(proto)
    np.testing.assert_allclose(program(**given), wanted, 1e-4, 1e-4)
    if kind in ("MatMul", "Conv"):
        with pytest.raises(SourceError, match=f"{kind} giving 'y'"):
            program(given["x"][:, :1])


@pytest.mark.parametrize(
    "cut", [(1, 9, 1), (7, 9, 1), (0, 4, 1), (-9, 3, 1), (-3, 99, 1), (5, -8, -1)]
)
def test_slices_that_end_outside_of_an_open_axis(cut: tuple[int, int, int]) -> None:
    """The size of a call decides how much is left."""
    held = dict(zip("seda", [[cut[0]], [cut[1]], [cut[2]], [0]], strict=True))
    nodes = [node("Slice", ["x", "s", "e", "a", "d"], ["y"])]
    constants = {name: np.array(value) for name, value in held.items()}
    program = xlac.compile(model(nodes, [value("x", ("n", 2))], [value("y", ("m", 2))], constants))
    for size in (6, 12, 3, 10):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        np.testing.assert_array_equal(program(x), x[slice(*cut)])


def test_a_size_that_the_model_does_not_have_is_refused() -> None:
    head = '<ir_version: 10, opset_import: ["" : 23]>'
    proto = parser.parse_model(f"{head}\nm (float[n,c] x) => (float[n,c] y) {{ y = Neg(x) }}")
    assert load(proto, dims={"n": 2, "c": "1..3"}).inputs[0].shape[0] == 2
    with pytest.raises(SourceError, match="there is no size 'batch' to set") as caught:
        load(proto, dims={"n": 2, "batch": 3})
    assert caught.value.diagnostics[0].hint == "known: c, n"


def test_what_no_size_makes_right_is_refused_at_once() -> None:
    head = '<ir_version: 10, opset_import: ["" : 23]>'
    text = "m (float[n,c] x, float[n,d] y) => (float[n,e] z) {"
    call = 'z = CumSum(x, y) w = GridSample<mode: string = "nothing">(x, y) }'
    with pytest.raises(SourceError) as caught:
        load(parser.parse_model(f"{head}\n{text} {call}"))
    assert not isinstance(caught.value, Undecided)


def test_a_size_that_heads_divide_is_called_unknown() -> None:
    text = "m (float[b,s,d] x, float[4] y) => (float[b,s,d] z, float[3] w) {"
    call = "z = Attention<q_num_heads: int = 4, kv_num_heads: int = 4>(x, x, x) w = Nothing(y) }"
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]>\n{text} {call}')
    with pytest.raises(SourceError, match="is of unknown size, and 4 heads divide it"):
        load(proto)
