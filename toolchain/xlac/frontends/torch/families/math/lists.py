"""ATen's operations on lists of tensors (_foreach_*), as used by optimizers: applied to each
tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch

NAMED: Mapping[tuple[str, str], str] = {
    ("maximum", "Scalar"): "clamp_min",
    ("maximum", "ScalarList"): "clamp_min",
    ("minimum", "Scalar"): "clamp_max",
    ("minimum", "ScalarList"): "clamp_max",
    ("norm", "Scalar"): "linalg_vector_norm",
    ("pow", "ScalarAndTensor"): "pow",
}
"""The operation on one tensor where its name differs, by the name and overload of the list's."""
BY_TENSOR = frozenset({"addcdiv", "addcmul"})
"""Operations whose overload `Tensor` takes a vector of scalars, one for each tensor."""


def each(packet: Any, vector: bool, *args: Any, **named: Any) -> list[Any]:
    """Applies an operation to each tensor of lists; other arguments are shared. `vector`: the last
    argument is a tensor with a number for each.
    """
    if vector:
        args = (*args[:-1], args[-1].unbind(0))
    (count,) = {len(arg) for arg in args if isinstance(arg, list | tuple)}
    results = []
    for number in range(count):
        given = [arg[number] if isinstance(arg, list | tuple) else arg for arg in args]
        if vector:  # a tensor where the operation takes a number
            *given, scale = given
            first, *factors = given
            result = _scaled(packet, first, factors, scale)
        elif packet in (torch.ops.aten.addcdiv, torch.ops.aten.addcmul) and len(given) > 3:
            result = packet(*given[:3], value=given[3], **named)
        else:
            result = packet(*given, **named)
        results.append(result)
    return results


def _scaled(packet: Any, x: Any, factors: Sequence[Any], scale: Any) -> Any:
    y, z = factors
    return x + scale * (y / z if packet is torch.ops.aten.addcdiv else y * z)


@cache
def one_by_one() -> dict[Any, Callable[..., Any]]:
    """The decompositions of all out-of-place operations on lists."""
    decompositions: dict[Any, Callable[..., Any]] = {}
    for name in dir(torch.ops.aten):
        if not name.startswith("_foreach_") or name.endswith("_"):
            continue
        plain, packet = name.removeprefix("_foreach_"), getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            one = getattr(torch.ops.aten, NAMED.get((plain, overload), plain), None)
            operation = getattr(packet, overload)
            if one is not None and not overload.endswith("out") and operation._schema.returns:
                vector = plain in BY_TENSOR and overload == "Tensor"
                decompositions[operation] = partial(each, one, vector)
    return decompositions
