"""`xlac.grad`, `xlac.value_and_grad`, `xlac.jvp`, `xlac.vjp`, `xlac.vmap`: functions made of
functions. Inside of a function that is traced they are part of it; called with arrays they are
compiled as by `xlac.jit`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from xlac.autodiff.bodies import residuals
from xlac.frontends import wrt as by
from xlac.frontends.arguments import Arguments
from xlac.frontends.derivatives import PullBack, gradient, pushed
from xlac.frontends.mapping import mapped
from xlac.frontends.pytree import Static
from xlac.frontends.traced_function import inlined, is_tracing
from xlac.frontends.tracing import Tensor
from xlac.integrations.jit import Jitted, JittedMethod, jit
from xlac.ir.graph import Node
from xlac.ops.walks import substituted
from xlac.runtime.programs import Programs

Change = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""What is traced in a function's place, given the function and a call's arguments."""


class Subject:
    """A function that is transformed; of a method, the function and the object that it belongs
    to.
    """

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
        """What tells this function from others as long as it lives."""
        return id(self.plain), self.owner is None, repr(self._options)

    def arguments(self) -> Arguments:
        """What it takes, without its object."""
        innermost = inspect.unwrap(self.plain)
        return Arguments(innermost if self.owner is None else MethodType(innermost, self.owner))

    def made(self, change: Change, alike: bool = True) -> Any:
        """The transformed function, which is compiled when it is called with arrays. It takes the
        same arguments if it is `alike`, and has the options of a function that is jitted already.
        """
        return self.bound(self.compiled(change, alike))

    def bound(self, jitted: Jitted) -> Any:
        """A transformed function as a method of the object."""
        return jitted if self.owner is None else jitted.__get__(self.owner)

    def compiled(self, change: Change, alike: bool) -> Jitted:
        """The transformed function, which takes the object first."""
        plain, method = self.plain, self.owner is not None

        def traced(*args: Any, **named: Any) -> Any:
            if method:
                return change(plain.__get__(args[0]), args[1:], named)
            return change(plain, args, named)

        if alike:
            functools.update_wrapper(traced, plain, updated=())
        return self.jitted(traced)

    def jitted(self, traced: Callable[..., Any]) -> Jitted:
        """What is traced in the function's place, with its name and options."""
        traced.__name__ = f"{self.transform}_{self.name}"
        return jit(traced) if self._options is None else Jitted(traced, self._options)


def grad(function: Callable[..., Any], wrt: by.Wrt = 0, has_aux: bool = False) -> Any:
    """The function that gives the gradient of `function`, which gives one float, by its arguments
    `wrt`: a name or the number of a place, or several of them, for which it gives a tuple.

    Arguments are arrays, numbers and nests of these, and a gradient is a nest like its argument,
    zero where the value does not depend on it. With `has_aux` the function gives a pair, the value
    and something beside it, and its gradient another, the gradient and what was beside.

    Raises SourceError for a `wrt` that there is not, that is no float, a value that is no scalar
    and an operation that has no derivative: some at once, some when it is called.
    """
    return _gradient("grad", function, wrt, has_aux, value=False)


def value_and_grad(function: Callable[..., Any], wrt: by.Wrt = 0, has_aux: bool = False) -> Any:
    """As `grad`, but gives the pair of the value and the gradient; with `has_aux` the value is
    itself a pair.
    """
    return _gradient("value_and_grad", function, wrt, has_aux, value=True)


def _gradient(
    transform: str, function: Callable[..., Any], wrt: by.Wrt, has_aux: bool, value: bool
) -> Any:
    subject = Subject(transform, function)
    arguments, name = subject.arguments(), subject.name
    by.checked(name, arguments, wrt)

    def change(call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        leaves = by.Leaves(name, arguments, wrt, args, named)
        of, aux, found = gradient(
            name, functools.partial(leaves.called, call), leaves.tensors, has_aux
        )
        nests = leaves.nests(found)
        gradients = nests[0] if by.single(wrt) else nests
        if value:
            return ((of, aux) if has_aux else of), gradients
        return (gradients, aux) if has_aux else gradients

    return subject.made(change)


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """The function that does for many examples, side by side, what `function` does for one.

    `in_axes` says which axis of its arguments counts the examples: a number for all, a tuple with
    one for each argument by position, None for one that all share; for a nest of arrays one number
    for all of it, or a nest like it. Arguments by name have it first. `out_axes` says so of
    results: where the examples go, or None for what does not differ between them.

    Raises SourceError for axes that do not fit, when it is called.
    """
    subject = Subject("vmap", function)
    arguments, name = subject.arguments(), subject.name

    def change(call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return mapped(name, arguments, call, args, named, in_axes, out_axes)

    return subject.made(change)


_COMPILED: Programs[tuple[Subject, Jitted]] = Programs()
"""What `jvp` and `vjp` made of the functions that they met last; a subject is kept with it, so that
its identity is not another's.
"""


def _kept(subject: Subject, has_aux: bool, change: Change) -> Any:
    key = subject.transform, subject.key, has_aux
    made = _COMPILED.get(key, lambda: (subject, subject.compiled(change, alike=False)))
    return subject.bound(made[1])


def jvp(
    function: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """The value of `function(*primals)` and how it changes when the primals change by `tangents`,
    nests like them: None for what does not change, as integers do not. With `has_aux` the function
    gives a pair, and what is beside the value comes third.

    Programs are kept for the 64 functions met last: a lambda written in the call is compiled by
    each. Raises SourceError for tangents that do not fit, and for an operation without a
    derivative.
    """
    subject = Subject("jvp", function)
    name = subject.name
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(f"the primals and tangents of {name}() are tuples of its arguments")

    def change(call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        subject.arguments().checked(args[0], {})
        value, moved, aux = pushed(name, call, args[0], args[1], has_aux)
        return (value, moved, aux) if has_aux else (value, moved)

    if is_tracing():
        return change(function, (inlined(tuple(primals)), inlined(tuple(tangents))), {})
    return _kept(subject, has_aux, change)(tuple(primals), tuple(tangents))


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `function(*primals)`, and a function from a cotangent of the value, a nest like
    it, to those of the primals, a tuple: None for integers. With `has_aux` the function gives a
    pair, and what is beside the value comes third.

    The value is computed once, with what the second function needs of it, which may be called
    several times. Programs are kept as by `jvp`. Raises SourceError for an operation without a
    derivative, and, from the second function, for cotangents that do not fit.
    """
    subject = Subject("vjp", function)
    name = subject.name

    def change(call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        subject.arguments().checked(args, {})
        back = PullBack(name, call, args, has_aux)
        value, aux = back.value()
        changes = [c for c in back.linear.tangents if c is not None]
        known = residuals(changes, back.linear.sources)
        kept = [Tensor(node) for node in substituted(known, back.values())]
        return value, aux, kept, _Pulled(subject, back, known)

    if is_tracing():
        here = PullBack(name, function, inlined(primals), has_aux)
        value, aux = here.value()
        pull: Any = functools.partial(here.pulled, values=here.values())
    else:
        value, aux, kept, pulled = _kept(subject, has_aux, change)(*primals)
        pull = functools.partial(pulled.program, kept)
    return (value, pull, aux) if has_aux else (value, pull)


class _Pulled(Static):
    """The way back from cotangents, compiled by itself: it takes what the way forward kept."""

    def __init__(self, subject: Subject, back: PullBack, known: Sequence[Node]) -> None:
        self._back, self._known = back, known
        self.program = subject.jitted(lambda kept, cotangent: self._pulled(kept, cotangent))

    def _pulled(self, kept: Sequence[Tensor], cotangent: Any) -> Any:
        values = {node: one.node for node, one in zip(self._known, kept, strict=True)}
        return self._back.pulled(cotangent, values)
