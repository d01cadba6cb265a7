"""Vectorization of functions over a batch axis: what `xlac.vmap` traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.frontends.arguments import Arguments
from xlac.frontends.pytree import PyTree, flatten, paths, unflatten
from xlac.frontends.traced_function import Input, inlined
from xlac.frontends.tracing import Number, Tensor
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops import build
from xlac_sdk.source import Diagnostic, SourceError

Axes = Any
"""An axis, None for an argument shared by all examples, or a pytree of them that is a prefix of the
argument's.
"""


def wrong(message: str, hint: str = "") -> SourceError:
    """The error for axes that do not fit the arguments or results."""
    return SourceError(Diagnostic("XL2046", message, hint=hint))


def mapped(
    function: str,
    arguments: Arguments,
    call: Callable[..., Any],
    args: Sequence[Any],
    named: dict[str, Any],
    in_axes: Axes,
    out_axes: Axes,
) -> Any:
    """The results of a function for every example along the batch axes of its arguments. Keyword
    arguments are mapped along axis 0. Raises SourceError for axes that do not fit.
    """
    leaves: list[Tensor] = []
    tree = flatten((tuple(args), named), leaves)
    axes: list[int | None] = [0] * len(leaves)
    names = [f"args[{n}]" for n in range(len(leaves))]
    given = tree[1][0]
    wanted = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    for name, number in arguments.leaves(tree):
        names[number] = name
    for number, axis in _spread("in_axes", wanted, given, function):
        axes[number] = axis
    sizes: dict[str, Dim] = {}
    for number, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is not None:
            axes[number] = _axis(f"the argument {names[number]}", "in_axes", leaf, axis)
            sizes[names[number]] = leaf.shape[axes[number]]  # type: ignore[index]
    size = _size(function, sizes)

    one = [
        _one(leaf, axis, number)
        for number, (leaf, axis) in enumerate(zip(leaves, axes, strict=True))
    ]
    own_args, own_named = unflatten(tree, one)
    results: list[Tensor] = []
    result = flatten(inlined(call(*own_args, **own_named)), results)
    along = {
        own.node: Along(_front(leaf.node, axis), True)
        for own, leaf, axis in zip(one, leaves, axes, strict=True)
        if axis is not None
    }
    alongs = Batch(along, size).run([r.node for r in results])
    placed: list[Any] = [None] * len(results)
    for number, axis in _spread("out_axes", out_axes, result, function):
        placed[number] = _placed(function, results[number], alongs[number], axis, size)
    return unflatten(result, placed)


def _one(leaf: Tensor, axis: int | None, number: int) -> Tensor:
    """The parameter that stands for one example of a leaf: its type without the batch axis."""
    if axis is None:
        return leaf
    shape = tuple(size for at, size in enumerate(leaf.shape) if at != axis)
    return Input("v", f"v{number}", leaf.node.type.with_shape(shape)).tensor


def _front(x: Node, axis: int) -> Node:
    others = [at for at in range(x.type.rank) if at != axis]
    return x if axis == 0 else build.transpose(x, (axis, *others))


def _placed(function: str, result: Tensor, along: Along, axis: int | None, size: Dim) -> Tensor:
    """A result for all examples, with the batch axis moved to `axis`."""
    if axis is None:
        if along.mapped:
            message = (
                f"{function}() gives {result.node.type} for each example, and out_axes says None, "
                "as if it were one for all"
            )
            raise wrong(message, "give the axis of the examples")
        return result
    node = along.spread(size)
    at = _axis(f"the result of {function}()", "out_axes", Tensor(node), axis)
    order = [*range(1, at + 1), 0, *range(at + 1, node.type.rank)]
    return Tensor(node if at == 0 else build.transpose(node, order))


def _axis(what: str, which: str, leaf: Tensor, axis: int) -> int:
    kind = "a number" if isinstance(leaf, Number) else str(leaf.node.type)
    rank = 0 if isinstance(leaf, Number) else leaf.ndim
    try:
        return normal_axis(axis, rank)
    except ShapeError:
        hint = f"{which}=None there: it is the same for every example" if which == "in_axes" else ""
        raise wrong(f"{which} says axis {axis} of {what}, which is {kind}", hint) from None


def _size(function: str, sizes: dict[str, Dim]) -> Dim:
    if not sizes:
        raise wrong(f"in_axes gives no argument of {function}() an axis of examples")
    (first, size), *others = sizes.items()
    for name, other in others:
        if other != size:
            raise wrong(f"{first} of {function}() has {size} examples, and {name} has {other}")
    return size


def _spread(
    which: str, axes: Axes, tree: PyTree, function: str, path: str = ""
) -> Iterator[tuple[int, int | None]]:
    """The axis of each leaf of a pytree: an axis given for a subtree holds for all leaves below
    it.
    """
    kind, content = tree
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        yield from ((number, axes) for _, number in paths(tree, ""))
        return
    if kind == "dict" and isinstance(axes, dict):
        below = [(f"{path}[{key!r}]", axes.get(key, _ABSENT), inner) for key, inner in content]
        fits = set(axes) == {key for key, _ in content}
    elif kind not in ("dict", "leaf", "static") and isinstance(axes, tuple | list):
        fits = len(axes) == len(content)
        below = [
            (f"{path}[{n}]", a, i) for n, (a, i) in enumerate(zip(axes, content, strict=False))
        ]
    else:
        fits, below = False, []
    if not fits:
        part = f"{which}{path}" if path else which
        what = "arguments" if which == "in_axes" else "results"
        raise wrong(
            f"{part} is {axes!r:.60}, which does not fit the {what} of {function}()",
            "an axis, None, or a nest of them like what they are axes of",
        )
    for where, inner, part_of in below:
        yield from _spread(which, inner, part_of, function, where)


_ABSENT = object()
