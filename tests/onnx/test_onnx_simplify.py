"""`xlac simplify`: fewer operators, the same results, names and open sizes kept. Results are judged
by ONNX's own reference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from xlac.integrations.simplify.model import simplify
from xlac_sdk.source import SourceError

RNG = np.random.default_rng(5)


def model(text: str, tensors: dict[str, Any] | None = None, opset: int = 20) -> Any:
    """A model in ONNX's text form, with tensors beside it."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}]>\n'
    made = parser.parse_model(head + text)
    for name, array in (tensors or {}).items():
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def same(made: Any, tolerance: float = 0.0, **inputs: Any) -> Any:
    """The simplified model, which gives the same on these inputs."""
    found = simplify(made).model()
    onnx.checker.check_model(found, full_check=True)
    names = [info.name for info in made.graph.output]
    assert [info.name for info in found.graph.output] == names
    assert [info.name for info in found.graph.input] == [info.name for info in made.graph.input]
    expected = ReferenceEvaluator(made).run(None, inputs)
    for old, new in zip(expected, ReferenceEvaluator(found).run(None, inputs), strict=True):
        assert old.dtype == new.dtype and old.shape == new.shape
        np.testing.assert_allclose(new, old, rtol=tolerance, atol=tolerance)
    return found


def kinds(made: Any) -> list[str]:
    """The operators in order."""
    return [node.op_type for node in made.graph.node]


def sizes(info: Any) -> list[Any]:
    """The declared sizes of a value."""
    return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]


def uniform(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def test_shapes_that_are_computed_become_constants() -> None:
    made = model(
        """
        m (float[my batch, 6, 4] x) => (float[a, b] y) {
            s = Shape(x)
            zero = Constant<value: tensor = int64 {0}>()
            n = Gather<axis: int = 0>(s, zero)
            axes = Constant<value: tensor = int64[1] {0}>()
            first = Unsqueeze(n, axes)
            rest = Constant<value: tensor = int64[1] {-1}>()
            to = Concat<axis: int = 0>(first, rest)
            z = Relu(x)
            y = Reshape(z, to)
        }""".replace("my batch", "batch")
    )
    for info in (made.graph.input[0],):
        info.type.tensor_type.shape.dim[0].dim_param = "my batch"
    for count in (1, 3):
        found = same(made, x=uniform(count, 6, 4))
    assert kinds(found) == ["Relu", "Reshape"]
    assert sizes(found.graph.input[0]) == ["my batch", 6, 4]
    assert sizes(found.graph.output[0]) == ["my batch", 24]
    assert {v.name: sizes(v) for v in found.graph.value_info} == {"z": ["my batch", 6, 4]}


def test_constants_are_computed_and_the_same_is_one() -> None:
    made = model(
        """
        m (float[2, 3] x) => (float[2, 3] y, float[2, 3] again, float[3, 2] table) {
            table = Transpose<perm: ints = [1, 0]>(w)
            back = Transpose<perm: ints = [1, 0]>(table)
            one = Constant<value: tensor = float {1.0}>()
            same = Mul(x, one)
            d = Dropout(same)
            a = Add(d, back)
            b = Add(x, w)
            y = Mul(a, b)
            again = Identity(y)
            unused = Exp(y)
        }""",
        {"w": uniform(2, 3)},
    )
    found = same(made, x=uniform(2, 3))
    assert kinds(found) == ["Add", "Mul", "Identity", "Identity"]
    assert {t.name for t in found.graph.initializer} >= {"w"}


def test_views_of_views_are_one() -> None:
    made = model(
        """
        m (float[n, 4, 6] x) => (float[n, 24] y, float[n, 4, 6] z) {
            shape = Constant<value: tensor = int64[3] {0, 6, 4}>()
            a = Reshape(x, shape)
            y = Flatten(a)
            p = Transpose<perm: ints = [2, 1, 0]>(x)
            q = Transpose<perm: ints = [1, 0, 2]>(p)
            z = Transpose<perm: ints = [1, 2, 0]>(q)
        }"""
    )
    found = same(made, x=uniform(2, 4, 6))
    assert len(kinds(found)) == 2 and {"x"} == {n.input[0] for n in found.graph.node}


def test_batch_normalization_goes_into_the_convolution() -> None:
    tensors = {"w": uniform(5, 3, 3, 3), "b": uniform(5)}
    tensors |= {name: uniform(5) for name in ("scale", "shift", "mean")}
    tensors["variance"] = np.abs(uniform(5)) + 0.1
    text = """
        m (float[n, 3, 8, 8] x) => (float[n, 5, 6, 6] y) {
            c = Conv(x, w, b)
            y = BatchNormalization<epsilon: float = 0.001>(c, scale, shift, mean, variance)
        }"""
    found = same(model(text, tensors), 1e-5, x=uniform(2, 3, 8, 8))
    assert kinds(found) == ["Conv"] and len(found.graph.initializer) == 2
    both = text.replace("=> (", "=> (float[n, 5, 6, 6] c, ")
    found = same(model(both, tensors), x=uniform(2, 3, 8, 8))
    assert kinds(found) == ["Conv", "BatchNormalization"]
    made = model(text, tensors)
    made.graph.input[0].name = made.graph.node[0].input[0] = "y.kernel"  # a name that is taken
    found = same(made, 1e-5, **{"y.kernel": uniform(2, 3, 8, 8)})
    assert kinds(found) == ["Conv"]


def test_random_numbers_stay_random() -> None:
    made = model("""
        m (float[4] x) => (float[4] y, float[4] z) {
            a = RandomNormal<shape: ints = [4]>()
            b = RandomNormal<shape: ints = [4]>()
            y = Add(x, a)
            z = Add(x, b)
        }""")
    found = simplify(made).model()
    assert kinds(found).count("RandomNormal") == 2 and kinds(found).count("Add") == 2
    assert {info.name: sizes(info) for info in found.graph.value_info} == {"a": [4], "b": [4]}


def test_quantized_weights_stay_quantized() -> None:
    tensors = {
        "w": RNG.integers(-9, 9, (64, 64)).astype(np.int8),
        "s": np.float32(0.1),
        "zero": np.int8(0),
    }
    made = model(
        """
        m (float[2, 64] x) => (float[2, 64] y) {
            f = DequantizeLinear(w, s, zero)
            t = Transpose<perm: ints = [1, 0]>(f)
            y = MatMul(x, t)
        }""",
        tensors,
    )
    found = same(made, 1e-5, x=uniform(2, 64))
    assert kinds(found) == ["DequantizeLinear", "Transpose", "MatMul"]
    assert {t.data_type for t in found.graph.initializer} == {TensorProto.INT8, TensorProto.FLOAT}


def test_bodies_read_what_is_left() -> None:
    made = model(
        """
        m (bool c, float[3] x) => (float[3] y) {
            one = Constant<value: tensor = float {1.0}>()
            k = Add(one, one)
            x2 = Identity(x)
            y = If (c) <
                then_branch = t () => (float[3] r) { r = Mul(x2, k) },
                else_branch = e () => (float[3] q) { q = Sub(x2, k) }
            >
        }"""
    )
    for choice in (True, False):
        found = same(made, c=np.array(choice), x=uniform(3))
    assert kinds(found) == ["If"]


def test_large_constants_stay_computed() -> None:
    text = """
        m () => (float[400, 400] y) {
            to = Constant<value: tensor = int64[2] {400, 400}>()
            z = ConstantOfShape<value: tensor = float[1] {2.0}>(to)
            y = Exp(z)
        }"""
    assert kinds(same(model(text), 1e-6)) == ["ConstantOfShape", "Exp"]
    found = simplify(model(text), largest=1 << 20).model()
    assert kinds(found) == ["Identity"] and len(found.graph.initializer[0].raw_data) == 640_000


def test_a_result_of_several_that_is_constant() -> None:
    made = model(
        """
        m (float[4] x) => (float[4] y, int64[2] n, float[2] a) {
            parts = Constant<value: tensor = int64[2] {2, 2}>()
            a, b = Split<axis: int = 0>(x, parts)
            y = Concat<axis: int = 0>(b, a)
            n = Identity(parts)
        }"""
    )
    found = same(made, x=uniform(4))
    assert kinds(found) == ["Split", "Concat", "Identity"]


def test_dims_and_inputs_are_fixed() -> None:
    made = model("m (float[n, 4] x, int64[2] to) => (float[a, b] y) { y = Reshape(x, to) }")
    with pytest.raises(SourceError, match="depend on the value of to"):
        simplify(made)
    found = simplify(made, dims={"n": 3}, params={"to": np.array([2, 6])}).model()
    assert [info.name for info in found.graph.input] == ["x"]
    assert sizes(found.graph.input[0]) == [3, 4] and sizes(found.graph.output[0]) == [2, 6]
    x = uniform(3, 4)
    assert (ReferenceEvaluator(found).run(None, {"x": x})[0] == x.reshape(2, 6)).all()


def test_files_and_messages(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from xlac.cli import root

    weight = uniform(16, 1024)  # in the file that the next line writes beside the model
    made = model("m (float[n, 16] x) => (float[n, 1024] y) { v = Identity(x) y = MatMul(v, w) }")
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    path = tmp_path / "m.onnx"
    onnx.save(made, str(path), save_as_external_data=True, location="m.data", size_threshold=0)
    out = tmp_path / "small.onnx"
    run = CliRunner().invoke(root, ["simplify", str(path), "-o", str(out)], catch_exceptions=False)
    assert run.exit_code == 0 and "2 operators before, 1 after" in run.output
    found = onnx.load(str(out))
    assert (numpy_helper.to_array(found.graph.initializer[0]) == weight).all()
    other = tmp_path / "m.yaml"
    other.write_text("xlac: 1\n")
    with pytest.raises(SourceError, match=r"only \.onnx files are simplified"):
        CliRunner().invoke(root, ["simplify", str(other)], catch_exceptions=False)
    bad = model("m (float[4] x) => (float[4] y) { a = Nonsense(x) y = Gibberish(a) }")
    with pytest.raises(SourceError, match="Nonsense"):
        simplify(bad)


def test_tensors_of_a_large_model_are_beside_it(tmp_path: Path, monkeypatch: Any) -> None:
    from xlac.exporters.onnx import tensors

    monkeypatch.setattr(tensors, "INSIDE", 1000)
    text = "m (float[n, 16] x) => (float[n, 64] y) { y = MatMul(x, w) }"
    weight = uniform(16, 64)
    files = simplify(model(text, {"w": weight})).write(tmp_path / "m.onnx")
    assert [file.name for file in files] == ["m.onnx", "m.onnx.data"]
    assert files[1].stat().st_size >= weight.nbytes
    x = uniform(2, 16)
    found = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, x @ weight, rtol=1e-5, atol=1e-5)


def test_int4_weights_keep_their_type() -> None:
    packed = helper.make_tensor("w", TensorProto.INT4, [4, 2], [1, -2, 3, -4, 5, -6, 7, -8])
    made = model(
        """
        m (float[3, 4] x) => (float[3, 2] y) {
            f = DequantizeLinear(w, s)
            y = MatMul(x, f)
        }""",
        {"s": np.float32(0.5)},
        21,
    )
    made.graph.initializer.append(packed)
    found = same(made, 1e-5, x=uniform(3, 4))
    assert {t.data_type for t in found.graph.initializer} == {TensorProto.INT4, TensorProto.FLOAT}


def test_bounds_of_sizes_are_metadata() -> None:
    from xlac.exporters.onnx import proto
    from xlac.frontends.loader import load

    text = "m (float[n, 4] x, float[k] y) => (float[n, 4] z, float[k] w) { z = Exp(x) w = Exp(y) }"
    dims: dict[str, int | str] = {"n": "2..8"}
    exported = proto(load(model(text), dims=dims))
    for made in (exported, simplify(model(text), dims=dims).model()):
        assert {e.key: e.value for e in made.metadata_props} == {"xlac.size.n": "2..8"}
        assert sizes(made.graph.input[0]) == ["n", 4] and sizes(made.graph.output[0]) == ["n", 4]
        found = load(made).dims
        assert (found["n"].min, found["n"].max) == (2, 8)
        assert load(made, dims={"n": "3..5"}).dims["n"].max == 5
    exported.metadata_props[0].value = "what"
    assert load(exported).dims["n"].max == load(model(text)).dims["n"].max
