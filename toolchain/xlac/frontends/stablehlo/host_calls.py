"""Calls of Python functions, as JAX's callbacks are lowered: steps of the program that call what
the caller gives for them.

Calls with side effects are one chain: each gives a token, which the next takes, and the last one of
a graph is among its outputs. So none is left out, and all happen in the order of the program, in
loops and branches too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.frontends.stablehlo.importer import TOKEN
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.text.syntax import Element, TensorType, TokenType
from xlac.frontends.stablehlo.values import Token, TypedTensor, Value
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.effect import CustomCall, register
from xlac_sdk.programs.host_calls import FUNCTION, PYTHON

register({PYTHON: lambda *arrays, **given: tuple(given[FUNCTION](*arrays))})

_current: ContextVar[HostCalls | None] = ContextVar("host calls", default=None)


class HostCalls:
    """What is done with the calls of Python functions in a program: `functions` are called, by
    their numbers. Where `drops`, calls without results are left out, and listed in `dropped`.
    """

    def __init__(self, drops: bool) -> None:
        self.functions: Sequence[Callable[..., Any]] = ()
        self.drops = drops
        self.dropped: list[str] = []


@contextmanager
def host_calls(drops: bool = False) -> Iterator[HostCalls]:
    """In the block, programs that are imported may call Python functions."""
    current = HostCalls(drops)
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


def calling(functions: Sequence[Callable[..., Any]]) -> None:
    """States the functions that the next program calls."""
    current = _current.get()
    if current is not None:
        current.functions = functions


@dataclass(frozen=True, eq=False)
class Callback:
    """A Python function on the arrays that a program holds. JAX's function takes and gives arrays
    of the elements that the text states, and a token first where `takes_token`. With an `effect`
    the last array in and out is what orders calls.
    """

    function: Callable[..., Any]
    takes: tuple[Element, ...]
    gives: tuple[Element, ...]
    takes_token: bool
    effect: bool

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        left = list(arrays[: len(arrays) - self.effect])
        given = [_outward(left, element) for element in self.takes]
        first = [None] if self.takes_token else []
        results = list(self.function(*first, *given))[len(first) :]
        parts = [p for r, e in zip(results, self.gives, strict=True) for p in _inward(r, e)]
        return (*parts, np.zeros((), np.bool_)) if self.effect else tuple(parts)

    def __repr__(self) -> str:
        return "a Python function"


def _outward(arrays: list[Array], element: Element) -> Array:
    """The array of JAX for the first of the program's, which are taken from the list."""
    array = arrays.pop(0)
    if element.complex:
        return array + 1j * arrays.pop(0)
    if element.format:  # types that JAX brings to NumPy
        return array.view(f"float{element.format[1]}_{element.format[2:]}")
    if element.bits:
        return array.astype(f"{'u' * (array.dtype.kind == 'u')}int{element.bits}")
    return array


def _inward(result: Any, element: Element) -> list[Array]:
    array = np.asarray(result)
    if element.complex:
        return [np.asarray(array.real, order="C"), np.asarray(array.imag, order="C")]
    if element.format:
        return [array.view(np.uint8)]
    return [array.astype(element.dtype.numpy)] if element.bits else [array]


def python_callback(site: OperationSite) -> Built:
    """A call of a Python function: a step of the program where the caller gave its functions. Those
    without results may be left out instead.
    """
    current = _current.get()
    results = any(isinstance(type, TensorType) for type in site.op.types)
    if current is None:
        site.fail(
            "it calls a Python function, which a file does not hold",
            "xlac.from_jax compiles the function itself; or compute the value before",
            code="XL7216",
        )
    if current.drops and not results:
        current.dropped.append(str(site.importer.source.span(site.op.at)))
        return [Token() for _ in site.op.types]
    number = site.fields("mhlo.backend_config").get("index")
    if not isinstance(number, int) or not 0 <= number < len(current.functions):
        site.fail(f"there is no Python function {str(number)[:20]}", code="XL7216")
    return _call(site, current.functions[number])


def _call(site: OperationSite, function: Callable[..., Any]) -> list[Value]:
    given = [v for v in site.operands if isinstance(v, TypedTensor)]
    tensors = [type for type in site.op.types if isinstance(type, TensorType)]
    token = any(isinstance(v, Token) for v in site.operands)
    effect = site.flag("has_side_effect") or not tensors
    types = [
        Type(type.element.dtype, _shape(site, type))
        for type in tensors
        for _ in range(1 + type.element.complex)
    ]
    callback = Callback(
        function,
        tuple(v.element for v in given),
        tuple(type.element for type in tensors),
        token,
        effect,
    )
    operands = [part for v in given for part in v.parts]
    if effect:
        operands.append(site.importer.effect or build.constant(False))
        types.append(TOKEN)
    node = Node.of(CustomCall(PYTHON, ((FUNCTION, callback),), tuple(types)), *operands)
    left = list(build.results(node))
    if effect:
        site.importer.effect = left.pop()
    values: list[Value] = []
    for type in site.op.types:
        if isinstance(type, TokenType):
            values.append(Token())
        else:
            assert isinstance(type, TensorType)
            parts = tuple(left.pop(0) for _ in range(1 + type.element.complex))
            values.append(TypedTensor(type.element, parts))
    return values


def _shape(site: OperationSite, type: TensorType) -> tuple[int, ...]:
    if None in type.shape:
        site.fail("a Python function needs results of known sizes", code="XL7212")
    return tuple(n or 0 for n in type.shape)
