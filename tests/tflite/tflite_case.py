"""Models of one operator each, for comparison with TensorFlow Lite's reference kernels: what they
give is kept in expected.npz, which `make test-tflite` makes again and compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tflite_writer import Graph, Tensor, model

Array = np.ndarray[Any, Any]
BYTES: dict[str, Any] = {"i8": np.int8, "u8": np.uint8}
QUANTIZED = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767)}


@dataclass(frozen=True)
class Case:
    """A model of one operator, or a few: `low` and `high` bound its random inputs. It is called
    `calls` times with the same inputs.
    """

    name: str
    graph: Graph
    low: float = -3.0
    high: float = 3.0
    calls: int = 1
    others: tuple[Graph, ...] = ()  # sub-graphs after the first

    def file(self) -> bytes:
        """The model."""
        return model(self.graph, *self.others)

    def inputs(self) -> list[Array]:
        """Inputs that depend on the case's name alone."""
        random = np.random.default_rng(list(self.name.encode()))
        return [self._input(random, self.graph.tensors[n]) for n in self.graph.inputs]

    def _input(self, random: np.random.Generator, tensor: Tensor) -> Array:
        kind = {"f": "f4", "i": "i", "u": "u", "b": "?"}[tensor.dtype[0]]
        if tensor.dtype == "bool":
            return random.random(tensor.shape) < 0.5
        if tensor.dtype.startswith("f"):
            return random.uniform(self.low, self.high, tensor.shape).astype(kind)
        dtype = np.dtype(f"{kind}{int(tensor.dtype[1:]) // 8}")
        low, high = QUANTIZED.get(tensor.dtype, (int(self.low), int(self.high)))
        if tensor.scale is None and tensor.dtype in QUANTIZED:
            low, high = int(self.low), int(self.high)
        if tensor.dtype == "i16" and tensor.scale is not None:
            low = -32767
        return random.integers(low, high, tensor.shape, dtype=dtype, endpoint=True)


def x(*shape: int, dtype: str = "f32", **given: Any) -> Tensor:
    """An input."""
    return Tensor(dtype, shape, **given)


def q(*shape: int, dtype: str = "i8", scale: float = 0.0517, zero: int = 0) -> Tensor:
    """A quantized input, or result if without a shape."""
    return Tensor(dtype, shape, scale=scale, zero=zero)


def const(value: Any, dtype: str = "i32", **given: Any) -> Tensor:
    """A constant."""
    kind = {
        "i32": np.int32,
        "i64": np.int64,
        "f32": np.float32,
        "i8": np.int8,
        "u8": np.uint8,
        "bool": np.bool_,
        "f16": np.float16,
        "i16": np.int16,
    }[dtype]
    return Tensor(dtype, value=np.asarray(value, kind), **given)


def random(seed: int, *shape: int, dtype: str = "f32", **given: Any) -> Tensor:
    """A constant of random numbers."""
    source = np.random.default_rng(seed)
    if dtype == "f32":
        value: Array = source.uniform(-1, 1, shape).astype(np.float32)
    elif dtype == "i32":
        value = source.integers(-500, 500, shape).astype(np.int32)
    elif dtype == "i64":
        value = source.integers(-500, 500, shape).astype(np.int64)
    else:
        low, high = (-127, 127) if dtype == "i8" else QUANTIZED[dtype]
        value = source.integers(low, high, shape, endpoint=True).astype(
            {"i8": "i1", "u8": "u1"}[dtype]
        )
    return Tensor(dtype, value=value, **given)


def case(
    name: str,
    operator: str,
    *inputs: Tensor | None,
    out: Tensor | Sequence[Tensor] | None = None,
    table: str = "",
    low: float = -3.0,
    high: float = 3.0,
    **options: Any,
) -> Case:
    """A case of an operator whose operands are inputs, constants, or None where omitted."""
    results = [Tensor()] if out is None else [out] if isinstance(out, Tensor) else list(out)
    given = [t for t in inputs if t is not None]
    tensors = [*given, *results]
    numbers = iter(range(len(given)))
    operands = [-1 if t is None else next(numbers) for t in inputs]
    found = list(range(len(given), len(tensors)))
    asked = [n for n, t in enumerate(given) if t.value is None and not t.variable]
    settings = {"table": table} | options if table else {}
    return Case(
        name, Graph(tensors, [(operator, settings, operands, found)], asked, found), low, high
    )
