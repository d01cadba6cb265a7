"""Registered operations in JAX: a composite with a derivative, which xlac imports as the operation
and XLA computes by a callback.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.integrations.registered.imported import BACK, plain
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

if TYPE_CHECKING:
    from xlac.frontends.stablehlo.site import OperationSite
    from xlac.integrations.registered.operation import RegisteredOp
    from xlac.ir.graph import Node


def function(op: RegisteredOp) -> Callable[..., Any]:
    """The operation as a function of JAX arrays; attributes are keyword arguments."""
    import jax

    CUSTOM_CALLS[f"{op.domain}.{op.name}{BACK}"] = _back_builder(op)

    def call(*operands: Any, **attributes: Any) -> Any:
        """Calls the operation."""
        given = [jax.numpy.asarray(x) for x in operands]
        results = _differentiable(op, attributes)(*given)
        return results[0] if len(results) == 1 else results

    call.__name__ = call.__qualname__ = op.name
    return call


def _differentiable(op: RegisteredOp, attributes: dict[str, Any]) -> Any:
    import jax

    forward = _composite(op, "", attributes, False)

    def results(*operands: Any) -> Any:
        return tuple(forward(*operands))

    def kept(*operands: Any) -> Any:
        return computed(*operands), operands

    def back(operands: Any, cotangents: Any) -> Any:
        floats = [ct for ct in cotangents if ct.dtype != jax.dtypes.float0]
        gradients = iter(_composite(op, BACK, attributes, True)(*operands, *floats))
        return tuple(next(gradients) if _dtype(x).is_float else _nothing(x) for x in operands)

    computed: Any = jax.custom_vjp(results)
    computed.defvjp(kept, back)
    return computed


def _composite(op: RegisteredOp, suffix: str, attributes: dict[str, Any], backward: bool) -> Any:
    """The composite of a name; XLA computes it by the compiled program of the operation."""
    import jax

    def computed(*operands: Any, **_: Any) -> Any:
        types = [(_dtype(x), tuple(x.shape)) for x in operands]
        if not all(isinstance(size, int) for _, shape in types for size in shape):
            problem = f"{op.domain}.{op.name}: JAX callbacks need known sizes"
            hint = "give examples of fixed shapes, or declare the whole model in a spec"
            raise SourceError(Diagnostic("XL7212", problem, hint=hint))
        if backward:
            results = [t for t in types[: len(op.operands)] if t[0].is_float]
        else:
            results = op.results(types, attributes)
        shapes = [jax.ShapeDtypeStruct(shape, dtype.numpy) for dtype, shape in results]
        run = partial(_run, op, attributes, backward)
        return tuple(jax.pure_callback(run, shapes, *operands, vmap_method="sequential"))

    composite = jax.lax.composite(computed, name=f"{op.domain}.{op.name}{suffix}")
    # composites have no batching rule: examples are computed one by one
    return jax.custom_batching.sequential_vmap(partial(composite, **attributes))


def _run(op: RegisteredOp, attributes: dict[str, Any], backward: bool, *arrays: Any) -> Any:
    return op.run([np.asarray(a) for a in arrays], attributes, backward)


def _back_builder(op: RegisteredOp) -> Callable[[OperationSite], list[Node]]:
    def build(site: OperationSite) -> list[Node]:
        stated = site.get("composite_attributes") or {}
        attributes = {key: plain(value) for key, value in stated.items()}
        given = [site.number(n) for n in range(len(site.operands))]
        count = len(op.operands)
        return [*op.pulled_back(given[:count], given[count:], attributes)]

    return build


def _dtype(x: Any) -> DType:
    return DType.of(np.dtype(x.dtype))


def _nothing(x: Any) -> Any:
    """The cotangent of an operand that is not a float."""
    import jax

    return np.zeros(x.shape, jax.dtypes.float0)
