"""A row: one calculation as xlac's graph, as PyTorch and as JAX, and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.dtypes import DType

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A function of arrays in three forms (xlac, PyTorch, JAX), with its differentiable inputs.

    `wrt` names the inputs whose gradients are asked for. A `whole` row computes the function's
    value too, in the same call: what its gradient needs of it is kept. Inputs named in
    `whole_numbers` are drawn below that number. `work` is the floating-point operations of the
    forward calculation; 0 where memory decides, and then rates are told in bytes.
    """

    name: str
    kind: str
    inputs: Mapping[str, Shape]
    wrt: tuple[str, ...]
    xlac: Callable[..., Node]
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    work: int = 0
    whole: bool = False
    whole_numbers: Mapping[str, int] = field(default_factory=dict)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The inputs, by name, from a seed."""
        rng = np.random.default_rng(0)
        return {
            name: rng.integers(0, self.whole_numbers[name], shape).astype(np.int32)
            if name in self.whole_numbers
            else rng.standard_normal(shape).astype(np.float32)
            for name, shape in self.inputs.items()
        }

    def _params(self) -> dict[str, Node]:
        return {
            name: build.param(name, DType.I32 if name in self.whole_numbers else DType.F32, shape)
            for name, shape in self.inputs.items()
        }

    def forward(self) -> Model:
        """The calculation itself."""
        params = self._params()
        return Model(Graph("forward", tuple(params.values()), {"y": self.xlac(**params)}), {})

    def backward(self) -> Model:
        """The gradients by `wrt`, given the cotangent of the result as the input `ct`."""
        params = self._params()
        y = self.xlac(**params)
        ct = build.param("ct", y.type.dtype, y.shape)
        linear = linearize([y], [params[name] for name in self.wrt])
        cotangents = linear.transposed([ct])
        outputs = {"y": linear.values[0]} if self.whole else {}
        outputs |= {f"d_{name}": node for name, node in zip(self.wrt, cotangents, strict=True)}
        return Model(Graph("backward", (*params.values(), ct), outputs), {})

    def torch_forward(self, arrays: Mapping[str, Any]) -> Callable[[], Any]:
        """PyTorch's eager calculation."""
        given = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        given = {n: t.long() if n in self.whole_numbers else t for n, t in given.items()}

        def call() -> Any:
            with torch.no_grad():
                return self.torch(**given)

        return call

    def torch_backward(self, arrays: Mapping[str, Any], ct: Any) -> Callable[[], Any]:
        """PyTorch's eager gradients."""
        given = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        given = {n: t.long() if n in self.whole_numbers else t for n, t in given.items()}
        wrt = [given[name].requires_grad_() for name in self.wrt]
        cotangent = torch.from_numpy(ct.copy())
        if self.whole:

            def both() -> Any:
                y = self.torch(**given)
                return (y.detach(), *torch.autograd.grad(y, wrt, cotangent))

            return both
        y = self.torch(**given)
        return lambda: torch.autograd.grad(y, wrt, cotangent, retain_graph=True)

    def jax_backward(self, arrays: Mapping[str, Any], ct: Any) -> Callable[[], Any]:
        """JAX's compiled gradients."""

        @jax.jit
        def gradients(given: Any, cotangent: Any) -> Any:
            def value(*wrt: Any) -> Any:
                return self.jax(**{**given, **dict(zip(self.wrt, wrt, strict=True))})

            y, back = jax.vjp(value, *(given[name] for name in self.wrt))
            return ((y,) if self.whole else ()) + back(cotangent)

        given, cotangent = {n: jnp.asarray(a) for n, a in arrays.items()}, jnp.asarray(ct)
        return lambda: jax.block_until_ready(gradients(given, cotangent))  # type: ignore[no-untyped-call]
