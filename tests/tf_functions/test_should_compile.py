"""Whether a function of TensorFlow is worth compiling: answers for functions whose times
bench/TFLITE.md has. Needs TensorFlow: `make test-tf`.
"""

from __future__ import annotations

from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

import xlac


def model_fn(x: Any, y: Any, z: Any) -> Any:
    """The listing of the seeds."""
    return tf.reduce_sum(x + y * z)


def chain(x: Any) -> Any:
    """Forty operations, one after another."""
    for _ in range(20):
        x = tf.tanh(x) + 1.0
    return x


def product(x: Any, y: Any) -> Any:
    """One operation, which takes as long compiled as it does by itself."""
    return tf.matmul(x, y)


def total(x: Any, y: Any) -> Any:
    """One operation that moves more memory than it computes."""
    return x + y


@pytest.mark.parametrize(
    ("function", "shapes", "alone", "graph"),
    [
        (model_fn, ((512, 1024),) * 3, True, True),
        (tf.nn.softmax, ((256, 1000),), False, True),
        (tf.nn.gelu, ((512, 512),), True, True),
        (chain, ((10,),), True, True),
        (chain, ((1000, 100),), True, True),
        (product, ((512, 512),) * 2, False, True),
        (total, ((1000, 1000),) * 2, False, False),
        (total, ((), ()), False, True),
    ],
)
def test_should_compile_answers_as_times_do(
    function: Any, shapes: Any, alone: bool, graph: bool
) -> None:
    """The answers for functions whose times bench/TFLITE.md has."""
    tensors = tuple(tf.zeros(shape) for shape in shapes)
    assert bool(xlac.should_compile(function, tensors)) == alone
    assert bool(xlac.should_compile(tf.function(function), tensors)) == graph
    assert xlac.should_compile(tf.function(function, jit_compile=True), tensors)


def test_layers_of_keras_are_worth_compiling() -> None:
    parts = [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(4)]
    model = keras.Sequential([keras.Input((8,)), *parts])
    for function in (model, tf.function(model), tf.function(model, jit_compile=True)):
        assert xlac.should_compile(function, (tf.zeros((2, 8)),))


def test_should_compile_says_why() -> None:
    large = tuple(tf.zeros((512, 1024)) for _ in range(3))
    answer = xlac.should_compile(model_fn, large)
    assert answer and answer.own < answer.theirs
    assert "every operation is supported (" in answer.reason
    assert "one operation after another" in answer.reason
    small = xlac.should_compile(lambda x: x + 1.0, (tf.constant(1.0),))
    assert not small and small.own > small.theirs > 0
    jitted = tf.function(lambda x: x + 1.0, jit_compile=True)
    assert xlac.should_compile(jitted, (tf.constant(1.0),)).reason.endswith("with jit_compile")
    text = xlac.should_compile(lambda s: tf.strings.length(s), (tf.constant("a"),))
    assert not text and "XL7701" in text.reason
