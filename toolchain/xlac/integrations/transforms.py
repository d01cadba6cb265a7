"""Function transformations: `xlac.grad`, `xlac.value_and_grad`, `xlac.jvp`, `xlac.vjp`,
`xlac.vmap`. While a function is traced they are inlined into it; called with arrays they are
compiled as by `xlac.jit`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from xlac.autodiff.bodies import residuals
from xlac.frontends.arguments import Arguments
from xlac.frontends.gradients import wrt as by
from xlac.frontends.gradients.derivatives import PullBack, gradient, pushed
from xlac.frontends.mapping import mapped
from xlac.frontends.pytree import Static
from xlac.frontends.traced_function import inlined, is_tracing
from xlac.frontends.tracing import Tensor
from xlac.integrations.jit import Jitted, JittedMethod, jit
from xlac.ir.graph import Node
from xlac.ops.walks import substituted
from xlac.runtime.programs import Programs

Transformation = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Computes the transformed function while tracing, given the original and a call's arguments."""


class TransformedFunction:
    """A function to be transformed: `plain`, without jit, and for a method its object, `owner`."""

    def __init__(self, transform: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"xlac.{transform} takes a function, not {function!r:.60}")
        self.transform = transform
        self.plain: Any = function
        self.owner: Any = None
        self._options: dict[str, Any] | None = None
        if isinstance(function, JittedMethod | MethodType):
            self.plain, self.owner = function.__func__, function.__self__
        if isinstance(self.plain, Jitted):
            self.plain, self._options = self.plain._function, self.plain._options
        self.name = getattr(self.plain, "__name__", type(self.plain).__name__)

    @property
    def key(self) -> tuple[int, bool, str]:
        """A cache key, unique among functions that are alive."""
        return id(self.plain), self.owner is None, repr(self._options)

    def arguments(self) -> Arguments:
        """The function's parameters, without the object of a method."""
        innermost = inspect.unwrap(self.plain)
        return Arguments(innermost if self.owner is None else MethodType(innermost, self.owner))

    def applied(self, transformation: Transformation, same_arguments: bool = True) -> Any:
        """The transformed function, compiled when it is called with arrays, with the options of a
        function that is jitted already. `same_arguments`: it has the parameters of the original.
        """
        return self.bound(self.compiled(transformation, same_arguments))

    def bound(self, jitted: Jitted) -> Any:
        """A transformed function, as a method of the object if it is one."""
        return jitted if self.owner is None else jitted.__get__(self.owner)

    def compiled(self, transformation: Transformation, same_arguments: bool) -> Jitted:
        """The transformed function; that of a method takes the object first."""
        plain, method = self.plain, self.owner is not None

        def traced(*args: Any, **named: Any) -> Any:
            if method:
                return transformation(plain.__get__(args[0]), args[1:], named)
            return transformation(plain, args, named)

        if same_arguments:
            functools.update_wrapper(traced, plain, updated=())
        return self.jitted(traced)

    def jitted(self, traced: Callable[..., Any]) -> Jitted:
        """A jitted function with the name of the transform and the options of the original."""
        traced.__name__ = f"{self.transform}_{self.name}"
        return jit(traced) if self._options is None else Jitted(traced, self._options)


def grad(function: Callable[..., Any], wrt: by.Wrt = 0, has_aux: bool = False) -> Any:
    """The gradient of `function`, which returns a float scalar, with respect to its arguments
    `wrt`: a name or a position, or several of them, for which the result is a tuple.

    Arguments are arrays, numbers and pytrees of these. A gradient has the structure, shapes and
    dtypes of its argument; it is zero where the value does not depend on the argument. With
    `has_aux` the function returns a pair (value, auxiliary), and its gradient (gradient,
    auxiliary).

    Raises SourceError for an unknown `wrt` at once; and, when called, for an argument that is no
    float, a value that is no scalar, and an operation without a derivative.
    """
    return _gradient("grad", function, wrt, has_aux, value=False)


def value_and_grad(function: Callable[..., Any], wrt: by.Wrt = 0, has_aux: bool = False) -> Any:
    """As `grad`, but returns (value, gradient); with `has_aux`, ((value, auxiliary), gradient)."""
    return _gradient("value_and_grad", function, wrt, has_aux, value=True)


def _gradient(
    transform: str, function: Callable[..., Any], wrt: by.Wrt, has_aux: bool, value: bool
) -> Any:
    transformed = TransformedFunction(transform, function)
    arguments, name = transformed.arguments(), transformed.name
    by.checked(name, arguments, wrt)

    def transformation(
        call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        leaves = by.Leaves(name, arguments, wrt, args, named)
        of, aux, gradients_of_leaves = gradient(
            name, functools.partial(leaves.called, call), leaves.tensors, has_aux
        )
        nests = leaves.nests(gradients_of_leaves)
        gradients = nests[0] if by.single(wrt) else nests
        if value:
            return ((of, aux) if has_aux else of), gradients
        return (gradients, aux) if has_aux else gradients

    return transformed.applied(transformation)


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """Vectorizes a function of one example over a batch axis.

    `in_axes` is the batch axis of the arguments: a number for all, or a tuple with one for each
    positional argument; None for an argument that all examples share; for a pytree, one number, or
    a pytree of numbers. Keyword arguments have batch axis 0. `out_axes` is the same for results;
    None for a result that is equal for all examples.

    Raises SourceError, when called, for axes that do not fit the arguments.
    """
    transformed = TransformedFunction("vmap", function)
    arguments, name = transformed.arguments(), transformed.name

    def transformation(
        call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        return mapped(name, arguments, call, args, named, in_axes, out_axes)

    return transformed.applied(transformation)


_COMPILED: Programs[tuple[TransformedFunction, Jitted]] = Programs()
"""The compiled functions of `jvp` and `vjp` for the latest functions. The original is kept with
them, since the key contains its `id`, which could otherwise be reused.
"""


def _cached(transformed: TransformedFunction, has_aux: bool, transformation: Transformation) -> Any:
    key = transformed.transform, transformed.key, has_aux
    entry = _COMPILED.get(
        key, lambda: (transformed, transformed.compiled(transformation, same_arguments=False))
    )
    return transformed.bound(entry[1])


def jvp(
    function: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """Forward mode: (value, tangent) of `function(*primals)`, given the tangents of the primals,
    pytrees of their structure, shapes and dtypes; None where zero, and for integers. With `has_aux`
    the function returns a pair, and the auxiliary result comes third.

    Programs are cached for the 64 functions used last, by identity: a lambda written in the call is
    compiled by each. Raises SourceError for tangents that do not fit, and for an operation without
    a derivative.
    """
    transformed = TransformedFunction("jvp", function)
    name = transformed.name
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(f"the primals and tangents of {name}() are tuples of its arguments")

    def transformation(
        call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        transformed.arguments().checked(args[0], {})
        value, moved, aux = pushed(name, call, args[0], args[1], has_aux)
        return (value, moved, aux) if has_aux else (value, moved)

    if is_tracing():
        return transformation(function, (inlined(tuple(primals)), inlined(tuple(tangents))), {})
    return _cached(transformed, has_aux, transformation)(tuple(primals), tuple(tangents))


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Reverse mode: the value of `function(*primals)`, and a function from the value's cotangent
    (of its structure, shapes and dtypes) to a tuple of the primals' cotangents, None for integers.
    With `has_aux` the function returns a pair, and the auxiliary result comes third.

    The value and the residuals of the second function are computed once; that function may be
    called several times. Programs are cached as by `jvp`. Raises SourceError for an operation
    without a derivative, and, from the second function, for cotangents that do not fit.
    """
    transformed = TransformedFunction("vjp", function)
    name = transformed.name

    def transformation(
        call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        transformed.arguments().checked(args, {})
        back = PullBack(name, call, args, has_aux)
        value, aux = back.value()
        changes = [c for c in back.linear.tangents if c is not None]
        known = residuals(changes, back.linear.sources)
        kept = [Tensor(node) for node in substituted(known, back.values())]
        return value, aux, kept, _CompiledPullBack(transformed, back, known)

    if is_tracing():
        here = PullBack(name, function, inlined(primals), has_aux)
        value, aux = here.value()
        pull: Any = functools.partial(here.pulled, values=here.values())
    else:
        value, aux, kept, pulled = _cached(transformed, has_aux, transformation)(*primals)
        pull = functools.partial(pulled.program, kept)
    return (value, pull, aux) if has_aux else (value, pull)


class _CompiledPullBack(Static):
    """The reverse pass as a program of its own, from residuals and cotangents."""

    def __init__(
        self, transformed: TransformedFunction, back: PullBack, known: Sequence[Node]
    ) -> None:
        self._back, self._known = back, known
        self.program = transformed.jitted(lambda kept, cotangent: self._pull_back(kept, cotangent))

    def _pull_back(self, kept: Sequence[Tensor], cotangent: Any) -> Any:
        values = {node: one.node for node, one in zip(self._known, kept, strict=True)}
        return self._back.pulled(cotangent, values)
