"""Functions of TensorFlow, compiled: what they give, inside TensorFlow's graphs and gradients, and
what is refused. Needs TensorFlow: `make test-tf`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

import xlac
from xlac.cli import status
from xlac_sdk.source import SourceError


def drawn(*shape: int) -> np.ndarray:
    """Numbers from a seed."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def model_fn(x: Any, y: Any, z: Any) -> Any:
    """The listing of the seeds."""
    return tf.reduce_sum(x + y * z)


XYZ = tuple(tf.constant(drawn(64, 256) * n) for n in (1, 2, 3))


def compiled_or_not(x: Any, y: Any, z: Any) -> Any:
    """The seeds' explicit fallback."""
    if xlac.should_compile(model_fn, (x, y, z)):
        return xlac.compile(model_fn, (x, y, z))(x, y, z)
    return model_fn(x, y, z)


def test_the_result_is_an_ordinary_tensor() -> None:
    result = compiled_or_not(*XYZ)
    assert isinstance(result, tf.Tensor)
    np.testing.assert_allclose(result + result, 2 * model_fn(*XYZ), rtol=1e-5)


def test_no_gradient_is_recorded_where_nobody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = xlac.compile(model_fn, XYZ)
    wanted = compiled(*XYZ)
    monkeypatch.setattr(tf, "custom_gradient", None)
    np.testing.assert_array_equal(compiled(*XYZ), wanted)
    with tf.GradientTape() as tape, pytest.raises(TypeError):
        tape.watch(XYZ[0])
        compiled(*XYZ)


def test_inside_a_graph_it_is_a_host_function() -> None:
    compiled = xlac.compile(model_fn, XYZ)

    @tf.function
    def twice(x: Any, y: Any, z: Any) -> Any:
        value = compiled(x, y, z)
        assert value.shape == ()
        return value + value

    np.testing.assert_allclose(twice(*XYZ), 2 * model_fn(*XYZ), rtol=1e-5)


@pytest.mark.parametrize("graph", [False, True])
def test_gradients_are_those_of_tensorflow(graph: bool) -> None:
    compiled = xlac.compile(model_fn, XYZ)

    def gradients(function: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(XYZ)
            value = function(*XYZ) ** 2.0
        return tape.gradient(value, XYZ)

    ours = (tf.function(gradients) if graph else gradients)(compiled)
    for found, wanted in zip(ours, gradients(model_fn), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def stateful() -> tuple[Any, Any]:
    """A function with a weight, a counter, a loop, a branch and a TensorArray; and its counter."""
    weight = tf.Variable(drawn(3, 4), name="w")
    count = tf.Variable(0.0, name="count")

    @tf.function
    def function(x: Any, y: Any) -> Any:
        count.assign_add(1.0)
        _, kept = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, tf.nn.softmax(a)), [tf.constant(0), x]
        )
        array = tf.TensorArray(tf.float32, size=2)
        array = array.write(0, y[0]).write(1, y[1])
        return {
            "sum": tf.reduce_sum(tf.matmul(x, weight) + y) * count,
            "kept": kept[:, :1] + array.stack()[:, :1],
            "sign": tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x),
        }

    return function, count


def test_variables_are_read_and_assigned() -> None:
    function, count = stateful()
    x, y = drawn(2, 3), drawn(2, 4)
    wanted = [function(x, y), function(x, y)]
    compiled = xlac.compile(function, (x, y))
    count.assign(0.0)
    for turn in wanted:
        found = compiled(x, y)
        assert set(found) == set(turn)
        for name, value in turn.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    assert count.numpy() == 2.0


def test_as_a_model_variables_are_weights_and_state() -> None:
    function, count = stateful()
    model = xlac.compile(function, (drawn(2, 3), drawn(2, 4))).model
    assert sorted(model.weights) == ["count", "w"] and dict(model.state) == {"count": "count.next"}
    program: Any = xlac.compile(model)
    first, second = (program(drawn(2, 3), drawn(2, 4))["out2"] for _ in range(2))
    np.testing.assert_allclose(second, 2 * first, rtol=1e-5)
    assert count.numpy() == 0.0


def test_a_keras_model_and_its_gradients() -> None:
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
    )
    x = drawn(4, 8)
    compiled = xlac.compile(model, (x,))
    np.testing.assert_allclose(compiled(x), model(x), rtol=1e-5, atol=1e-6)

    def gradients(function: Any) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(function(x) ** 2)
        return tape.gradient(value, model.trainable_variables)

    for found, wanted in zip(gradients(compiled), gradients(model), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_arguments_that_are_not_given_keep_their_defaults() -> None:
    x = drawn(3, 5)
    np.testing.assert_allclose(xlac.compile(tf.nn.softmax, (x,))(x), tf.nn.softmax(x), rtol=1e-5)


def test_assigned_variables_are_seen_at_the_next_call() -> None:
    """Their values are built into a program, until they are assigned, in whatever way."""
    weight, bias = tf.Variable(drawn(16, 16)), tf.Variable(drawn(16))
    x = drawn(4, 16)

    def function(x: Any) -> Any:
        return tf.matmul(x, weight) + bias

    compiled = xlac.compile(function, (x,))
    for change in (
        lambda: None,
        lambda: weight.assign(drawn(16, 16) + 1),
        lambda: weight.assign_add(drawn(16, 16)),
        lambda: bias.assign_sub(drawn(16)),
        lambda: weight[3].assign(drawn(16)),
        lambda: weight.scatter_nd_update([[1]], [tf.fill((16,), 7.0)]),
        lambda: weight.assign(drawn(16, 16)),
    ):
        change()
        for _ in range(3):
            np.testing.assert_allclose(compiled(x), function(x), rtol=1e-4, atol=1e-5)


def test_variables_that_stay_are_built_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    compiled = xlac.compile(model, (drawn(2, 8),))
    wanted = compiled(drawn(2, 8))
    monkeypatch.setattr(compiled, "_forward", None)  # the program that takes them at every call
    np.testing.assert_array_equal(compiled(drawn(2, 8)), wanted)
    monkeypatch.undo()
    for _ in range(12):  # whoever assigns them at every call passes them
        model.layers[0].bias.assign_add(np.ones(4))
        np.testing.assert_allclose(compiled(drawn(2, 8)), model(drawn(2, 8)), rtol=1e-5)


def test_arguments_of_another_shape_are_refused() -> None:
    compiled = xlac.compile(model_fn, XYZ)
    with pytest.raises(SourceError, match="compiled for"):
        compiled(XYZ[0][:3], *XYZ[1:])


def test_a_saved_model_counts_as_code(tmp_path: Path) -> None:
    class Scaled(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tf.Variable(drawn(4), name="scale")

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            return {"y": tf.nn.tanh(x * self.scale)}

    module = Scaled()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.__call__)
    with pytest.raises(SourceError, match="trusted=True"):
        xlac.from_saved_model(tmp_path / "saved", drawn(2, 4))
    with pytest.raises(SourceError, match="sizes of x are open"):
        xlac.from_saved_model(tmp_path / "saved", trusted=True)
    with pytest.raises(SourceError, match="has no signature 'other'"):
        xlac.from_saved_model(tmp_path / "saved", signature="other", trusted=True)
    compiled = xlac.from_saved_model(tmp_path / "saved", drawn(2, 4), trusted=True)
    np.testing.assert_allclose(compiled(drawn(2, 4))["y"], module(drawn(2, 4))["y"], rtol=1e-5)
    assert list(compiled.model.weights) == ["scale"]


def test_commands_take_a_saved_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Counting(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tf.Variable(drawn(4), name="scale")
            self.calls = tf.Variable(0.0, name="calls")

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x: Any) -> Any:
            self.calls.assign_add(1.0)
            return {"scaled": x * self.scale * self.calls, "sum": tf.reduce_sum(x, 1)}

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="z")])
        def other(self, z: Any) -> Any:
            return {"negative": -z}

    module, folder = Counting(), str(tmp_path / "saved")
    signatures = {"serving_default": module.serve, "other": module.other}
    tf.saved_model.save(module, folder, signatures=signatures)
    assert status(["check", folder, "--trusted"]) != 0
    assert "--dim batch=1" in capsys.readouterr().err
    sized = [folder, "--trusted", "--dim", "batch=2"]
    np.save(tmp_path / "x.npy", drawn(2, 4))
    results = tmp_path / "out.npz"
    given = ["--input", f"x={tmp_path / 'x.npy'}", "--outputs", str(results)]
    assert status(["run", *sized, *given]) == 0
    wanted = module.serve(drawn(2, 4))
    with np.load(results) as found:
        assert set(found) == set(wanted)
        for name in found:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6)
    assert status(["check", *sized]) == 0
    assert status(["build", *sized, "--target", "c", "-o", str(tmp_path / "built")]) == 0
    assert list((tmp_path / "built").glob("*.c"))
    spec = str(tmp_path / "other.yaml")
    assert status(["import", folder, "--trusted", "--signature", "other", "-o", spec]) == 0
    np.testing.assert_array_equal(xlac.compile(spec)(z=np.float32([1, -2])), [-1, 2])
