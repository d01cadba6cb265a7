"""A workload of the GPU benchmark, its operands and its spec."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Operand = tuple[tuple[int, ...], str, float]
"""Its shape, its type, and the scale of the normal distribution that it is drawn from."""


@dataclass(frozen=True)
class Workload:
    """One problem of fixed sizes.

    `torch` and `jax` are sources of an expression over the operands' names (`F` is
    torch.nn.functional, `jnp`, `lax` and `nn` are JAX's); `spec` is the whole YAML. `tolerance`
    bounds ||result - reference|| / ||reference||.
    """

    name: str
    family: str
    operands: Mapping[str, Operand]
    spec: str
    torch: str
    jax: str
    reference: Callable[..., np.ndarray]
    flops: float
    tolerance: float
    precision: str = "default"  # "fast": every contender may use tf32
    model: Any = None  # a workload of the peers' suite, for whole models
    options: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self) -> Arrays:
        """Operands as float32, already rounded to their type; the same for every contender."""
        rng = np.random.default_rng([ord(c) for c in self.name])
        arrays_made = {}
        for name, (shape, dtype, scale) in self.operands.items():
            array = rng.standard_normal(shape, np.float32) * np.float32(scale)
            arrays_made[name] = rounded(array, dtype)
        return arrays_made

    @property
    def least_bytes(self) -> int:
        """Every operand read once and the result, of the first operand's type, written once."""
        read = sum(math.prod(shape) * WIDTH[dtype] for shape, dtype, _ in self.operands.values())
        return (
            read
            + int(self.options["result_elements"]) * WIDTH[next(iter(self.operands.values()))[1]]
        )


WIDTH = {"f32": 4, "bf16": 2, "f16": 2}


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values that the type holds exactly."""
    if dtype == "f16":
        return array.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = array.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return array


def spec(
    name: str, inputs: Mapping[str, Operand], graph: Mapping[str, str], precision: str = "default"
) -> str:
    """A spec of operands and named expressions; the last is the output."""
    lines = ["xlac: 1", f"model: {name}", f"precision: {precision}", "inputs:"]
    lines += [
        f'  {key}: "{dtype}[{", ".join(map(str, shape))}]"'
        for key, (shape, dtype, _) in inputs.items()
    ]
    lines += [
        "graph:",
        *(f"  {key}: {text}" for key, text in graph.items()),
        f"outputs: [{list(graph)[-1]}]",
    ]
    return "\n".join(lines) + "\n"


def softmax(x: np.ndarray) -> np.ndarray:
    """The softmax along the last axis, in NumPy."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """The tanh approximation of gelu, in NumPy."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
