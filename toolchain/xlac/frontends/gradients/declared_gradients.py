"""Functions with a declared gradient: `xlac.custom_gradient`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from xlac.frontends.gradients.change_nests import fitting
from xlac.frontends.gradients.variables import is_float
from xlac.frontends.pytree import flatten, unflatten
from xlac.frontends.traced_bodies import around, graph, inside, traced
from xlac.frontends.traced_function import inlined
from xlac.frontends.tracing import Number, Tensor
from xlac.ir.graph import Node, zeros
from xlac.ops import build
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.walks import closed


def custom_gradient(function: Callable[..., Any], gradient: Callable[..., Any]) -> Any:
    """`function` with a gradient of its own: `gradient(cotangent, result, *args)` returns a tuple
    with the cotangent of each argument, a pytree of its structure; None where it has none.

    Values that both capture count as constants. Forward mode applies the transpose of the gradient,
    so a gradient that is not linear in the cotangent has reverse mode only. Raises TypeError
    outside of traced functions, SourceError for cotangents that do not fit.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        inside(f"custom_gradient({function.__name__}, …)")
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(f"{function.__name__}() has a gradient: it takes arguments by position")
        return _declared(function, gradient, bound.args)

    return call


def _declared(
    function: Callable[..., Any], gradient: Callable[..., Any], args: Sequence[Any]
) -> Any:
    given: list[Tensor] = []
    tree = flatten(inlined(tuple(args)), given)
    leaves = _typed(given)
    count, types = len(leaves), [leaf.node.type for leaf in leaves]
    body = traced(lambda tensors: function(*unflatten(tree, tensors)), types)
    nodes_of_results = body.nodes()
    gives = [node.type for node in nodes_of_results]
    changes = [t for t in gives if t.dtype.is_float]

    def back(tensors: list[Tensor]) -> list[Tensor]:
        results = tensors[count : count + len(gives)]
        cotangents = iter(tensors[count + len(gives) :])
        given = [next(cotangents) if is_float(r) else None for r in results]
        cotangent, result = (unflatten(body.tree, each) for each in (given, results))
        parts = inlined(gradient(cotangent, result, *unflatten(tree, tensors[:count])))
        fitted = fitting("cotangent", "argument", tree, leaves, parts)
        pairs = zip(fitted, leaves, strict=True)
        return [_like(each, leaf) for each, leaf in pairs if is_float(leaf)]

    way = traced(back, [*types, *gives, *changes])
    returned = way.nodes()
    others = around((body.params, nodes_of_results), (way.params, returned))
    known = [*way.params[:count], *others, *way.params[count:]]
    nothing = [zeros(node.type) for node in others if node.type.dtype.is_float]
    op = CustomGradient(
        graph("function", body, others, nodes_of_results),
        closed("gradient", known, [*returned, *nothing]),
        getattr(function, "__name__", ""),
    )
    node = Node.of(op, *(leaf.node for leaf in leaves), *others)
    return unflatten(body.tree, [Tensor(each) for each in build.results(node)])


def _typed(leaves: Sequence[Tensor]) -> list[Tensor]:
    """Numbers as tensors of the type of the first float tensor."""
    first = next((t.dtype for t in leaves if not isinstance(t, Number) and is_float(t)), None)
    return [
        Tensor(t.weak.node(first if t.weak.kind is float else None)) if isinstance(t, Number) else t
        for t in leaves
    ]


def _like(cotangent: Tensor | None, leaf: Tensor) -> Tensor:
    """A cotangent of the leaf's type; zeros for None."""
    if cotangent is None:
        return Tensor(zeros(leaf.node.type))
    return Tensor(cotangent.weak.node(leaf.dtype)) if isinstance(cotangent, Number) else cotangent
