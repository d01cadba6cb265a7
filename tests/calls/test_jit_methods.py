"""`xlac.jit` of methods: a program is made anew when their object changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

X = np.arange(3, dtype=np.float32)


@dataclass
class Part:
    bias: Any
    name: str = "part"


@dataclass
class Layer:
    weight: Any
    scale: float = 1.0
    parts: list[Part] = field(default_factory=list)
    traced: Any = field(default_factory=list)

    @xlac.jit
    def __call__(self, x: Any) -> Any:
        y = x * self.weight * self.scale
        for part in self.parts:
            y = y + part.bias
        return y

    @xlac.jit
    def twice(self, x: Any) -> Any:
        return self(self(x))

    @xlac.jit
    def counts(self, x: Any) -> Any:
        self.scale = 5.0
        return x

    @xlac.jit
    def collects(self, x: Any) -> Any:
        self.parts.append(Part(x))
        return x

    @property
    @xlac.jit
    def doubled(self) -> Any:
        return self.weight * 2

    @classmethod
    @xlac.jit
    def of_class(cls, x: Any) -> Any:
        return x + len(cls.__name__)

    @staticmethod
    @xlac.jit
    def alone(x: Any) -> Any:
        return x + 1


class Slotted:
    __slots__ = ("bias", "factor")

    def __init__(self, bias: Any, factor: int) -> None:
        self.bias, self.factor = bias, factor

    @xlac.jit
    def call(self, x: Any) -> Any:
        return x * self.factor + self.bias


def test_a_method_sees_every_change_of_its_object() -> None:
    layer = Layer(X.copy(), parts=[Part(X), Part(X)])
    before = Layer.__dict__["__call__"].programs
    np.testing.assert_array_equal(layer(X), X * X + 2 * X)
    layer.weight[:] = 2
    np.testing.assert_array_equal(layer(X), 4 * X)
    assert Layer.__dict__["__call__"].programs == before + 1  # arrays are inputs
    layer.parts[0].bias = X + 1
    np.testing.assert_array_equal(layer(X), 4 * X + 1)
    layer.scale = 2.0
    np.testing.assert_array_equal(layer(X), 6 * X + 1)
    layer.parts.pop()
    np.testing.assert_array_equal(layer(X), 5 * X + 1)
    np.testing.assert_array_equal(Layer(X)(X), X * X)
    np.testing.assert_array_equal(layer.twice(X), (X * 5 + 1) * 4 + X + 1 + (0 * X))


def test_zero_and_minus_zero_of_an_object_are_two_programs() -> None:
    layer = Layer(np.ones(3, np.float32), 0.0)
    assert not np.signbit(layer(X + 1)).any()
    layer.scale = -0.0
    assert np.signbit(layer(X + 1)).all()


@pytest.mark.parametrize(
    ("method", "what"), [("counts", "self.scale"), ("collects", r"self\.parts\[0\]")]
)
def test_a_method_that_changes_its_object_is_an_error(method: str, what: str) -> None:
    layer = Layer(X)
    for call in (getattr(layer, method), xlac.jit(lambda x: getattr(layer, method)(x))):
        with pytest.raises(SourceError, match=f"XL2034|{what}") as error:
            call(X)
        assert "XL2034" in str(error.value) and method in str(error.value)
    assert layer.scale == 1.0 and not layer.parts


def test_methods_of_other_kinds() -> None:
    np.testing.assert_array_equal(Layer.of_class(X), X + 5)
    np.testing.assert_array_equal(Layer(X).alone(X), X + 1)
    slotted = Slotted(X, 3)
    np.testing.assert_array_equal(slotted.call(X), 4 * X)
    slotted.factor = 4
    np.testing.assert_array_equal(slotted.call(X), 5 * X)
    assert [p.op.name for p in slotted.call.trace(X).inputs] == ["arg0", "arg1"]
    with pytest.raises(SourceError, match="'z'"):
        slotted.call(z=X)


def test_what_an_object_holds_and_cannot_be_seen_to_change_is_an_error() -> None:
    with pytest.raises(SourceError, match=r"Layer\.traced is of type set"):
        Layer(X, traced=set())(X)
    parent = Layer(X)
    parent.traced = parent  # a cycle is nothing special
    np.testing.assert_array_equal(parent(X), X * X)


class Inner(Layer):
    @xlac.jit
    def twice(self, x: Any) -> Any:
        return Layer.twice(self, x) + super().twice(x)


def test_a_method_takes_its_object_as_functions_of_classes_do() -> None:
    """Through its class, by keyword, as a property, from another method and while tracing."""
    layer = Layer(X)
    np.testing.assert_array_equal(Layer.twice(layer, X), layer.twice(X))
    np.testing.assert_array_equal(Layer.twice(self=layer, x=X), layer.twice(X))
    np.testing.assert_array_equal(xlac.jit(lambda x: Layer.twice(layer, x))(X), layer.twice(X))
    np.testing.assert_array_equal(Inner(X).twice(X), 2 * layer.twice(X))
    np.testing.assert_array_equal(layer.doubled, 2 * X)
    assert [p.op.name for p in Layer.twice.trace(layer, X).inputs] == ["arg0", "arg1"]
    with pytest.raises(SourceError, match="'x'"):
        Layer.twice(layer)
    free = xlac.jit(lambda layer, x: layer.weight * x)
    with pytest.raises(SourceError, match="input 'layer': a Layer is not an array"):
        free(layer, X)


def test_arguments_of_a_method_and_arrays_of_its_object_have_their_names_in_messages() -> None:
    text = np.array(["a"])
    for call in (lambda: Layer(X)(text), lambda: Layer.__call__(Layer(X), text)):
        with pytest.raises(SourceError, match="input 'x': xlac has no element type"):
            call()
    with pytest.raises(SourceError, match=r"input 'Layer\.parts\[1\]\.bias': xlac has no element"):
        Layer(X, parts=[Part(X), Part(text)])(X)
