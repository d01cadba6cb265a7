"""`xlac.jit`: Python functions, compiled once for each set of shapes and dtypes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from xlac.api import compile
from xlac.frontends.arguments import Arguments
from xlac.frontends.pytree import PyTree, flatten, is_number, unflatten
from xlac.frontends.receivers import Receiver, unchanged
from xlac.frontends.traced_function import Leaf, Traced, inlined, is_tracing, trace
from xlac.frontends.tracing import Tensor
from xlac.ir.types import Type
from xlac.model import Model, chosen_precision
from xlac.runtime.programs import Programs
from xlac.support.failures import Asked
from xlac_sdk.dtypes import DType
from xlac_sdk.host.array_values import as_array, device_of, type_of, wrong
from xlac_sdk.source import SourceError
from xlac_sdk.support.counts import number_of
from xlac_sdk.support.limits import checkpoint, valid, within

Function = TypeVar("Function", bound=Callable[..., Any])


class Jitted:
    """A function that is compiled at the first call for each set of shapes and dtypes.

    Arguments are arrays, numbers and pytrees of these; strings, booleans, None, enums and types are
    compile-time constants. A number is weakly typed, as a literal is: it takes the dtype of the
    array it is combined with. Python's control flow runs while tracing, so loops are unrolled; a
    jitted function called inside is inlined. For a method, the arrays in its object are inputs as
    well; everything else in the object is a constant, whose change causes a new compilation.
    """

    def __init__(self, traced: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, traced)
        self._function, self._options = traced, options
        self._name = getattr(traced, "__name__", type(traced).__name__)
        self._arguments = Arguments(traced)
        self._programs: Programs[_Program] = Programs()

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        return self._inline(None, args, named) if is_tracing() else self._run(None, args, named)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else JittedMethod(self, instance)

    def __repr__(self) -> str:
        return _shown(self, self._arguments)

    def trace(self, /, *args: Any, **named: Any) -> Model:
        """The model that a call with these arguments compiles."""
        return self._call(None, args, named).traced().model

    @property
    def programs(self) -> int:
        """The number of cached programs."""
        return len(self._programs)

    def _run(self, receiver: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            call = self._call(receiver, args, named)
            program = self._programs.get(call.key, lambda: self._compile(call))
            outputs = program.compiled(
                *[_as_array(call.leaves[number], dtype, number) for number, dtype in program.takes]
            )
        except SourceError as error:
            self._name_inputs(error, args, named)
            raise
        return unflatten(
            program.result, list(outputs.values()) if isinstance(outputs, dict) else [outputs]
        )

    def _name_inputs(
        self, error: SourceError, args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Puts the function's own names into an error in place of a program's arg0, arg1, …"""
        names = {
            f"'arg{number}'": f"'{name}'"
            for name, number in self._arguments.leaves(flatten((args, named), []))
        }

        def own(text: str) -> str:
            return re.sub(r"'arg\d+'", lambda found: names.get(found[0], found[0]), text)

        error.diagnostics = [replace(d, message=own(d.message)) for d in error.diagnostics]
        error.args = tuple(own(text) for text in error.args)

    def _call(self, receiver: Any, args: tuple[Any, ...], named: dict[str, Any]) -> _Call:
        leaves: list[Any] = []
        held = None if receiver is None else Receiver(receiver)
        tree = flatten((args, named), leaves)
        split = len(leaves)
        if held is not None:
            tree = tree, held.tree
            leaves += held.leaves
        kinds = tuple([_kind(leaf, number) for number, leaf in enumerate(leaves)])
        return _Call(self, args, named, held, leaves, split, (tree, kinds))

    def _compile(self, call: _Call) -> _Program:
        with within(self._options["max_compile_seconds"], self._options["max_compile_memory"]):
            checkpoint("reading the model")
            model, takes, result = call.traced()
            return _Program(compile(model, **self._options), takes, result)

    def _inline(self, receiver: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Inlines the function into the one that is being traced, whose options apply."""
        self._arguments.checked(args if receiver is None else (receiver, *args), named)
        given, names = inlined(args), inlined(named)
        if receiver is not None:
            held = Receiver(receiver)
            again = held.rebuilt([inlined(leaf) for leaf in held.leaves])
            return inlined(
                unchanged(self._name, again, lambda owner: self._function(owner, *given, **names))
            )
        return inlined(self._function(*given, **names))


class JittedMethod:
    """A jitted function as a method of an object."""

    def __init__(self, jitted: Jitted, owner: Any) -> None:
        functools.update_wrapper(self, jitted, updated=())
        self.__func__, self.__self__ = jitted, owner

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        jitted = self.__func__
        return (jitted._inline if is_tracing() else jitted._run)(self.__self__, args, named)

    def __repr__(self) -> str:
        return _shown(self.__func__, self.__func__._arguments)

    def trace(self, /, *args: Any, **named: Any) -> Model:
        """The model that a call with these arguments compiles; the object's arrays are its last
        inputs.
        """
        return self.__func__._call(self.__self__, args, named).traced().model

    @property
    def programs(self) -> int:
        """The number of cached programs, for all objects."""
        return self.__func__.programs


class _Program(NamedTuple):
    compiled: Any
    takes: tuple[tuple[int, DType | None], ...]
    result: PyTree


class _Call(NamedTuple):
    """A call: the leaves of its arguments, followed from `split` on by those of the method's
    object, and the cache key of its program.
    """

    jitted: Jitted
    args: tuple[Any, ...]
    named: dict[str, Any]
    receiver: Receiver | None
    leaves: list[Any]
    split: int
    key: tuple[Any, tuple[Any, ...]]

    def traced(self) -> Traced:
        """Traces the function. Raises SourceError for arguments that it does not take."""
        jitted, receiver, split = self.jitted, self.receiver, self.split
        jitted._arguments.checked(
            self.args if receiver is None else (receiver.owner, *self.args), self.named
        )
        tree = self.key[0] if receiver is None else self.key[0][0]

        def function(tensors: list[Tensor]) -> Any:
            args, named = unflatten(tree, tensors[:split])
            if receiver is None:
                return jitted._function(*args, **named)
            again = receiver.rebuilt(tensors[split:])
            return unchanged(
                jitted._name, again, lambda owner: jitted._function(owner, *args, **named)
            )

        return trace(
            jitted._name, function, [_leaf(kind, number) for number, kind in enumerate(self.key[1])]
        )


def _kind(leaf: Any, number: int) -> Any:
    """The part of a leaf that a program is compiled for: the Python type of a number, shape and
    dtype of an array.
    """
    if type(leaf) is np.ndarray:
        return leaf.shape, leaf.dtype
    if is_number(leaf):
        return float if isinstance(leaf, float) else int
    # an array on a device: the program checks whether it can read it there
    if hasattr(leaf, "dtype") and device_of(leaf):
        return tuple(leaf.shape), np.dtype(str(leaf.dtype).rpartition(".")[2])
    array = as_array(leaf, None, f"arg{number}")
    return array.shape, array.dtype


def _leaf(kind: Any, number: int) -> Leaf:
    if isinstance(kind, type):
        return kind
    shape, dtype = kind
    return Type(type_of(dtype, f"arg{number}"), shape)


def _as_array(leaf: Any, dtype: DType | None, number: int) -> Any:
    """A leaf as an argument of its program: a number as an array of the dtype that it has there.
    Raises SourceError for one that does not fit.
    """
    if dtype is None:
        return leaf
    if dtype is DType.F32 and -1e38 < leaf < 1e38:  # the common case, without the checks below
        return np.array(leaf, np.float32)
    try:
        with np.errstate(over="ignore"):
            return np.asarray(leaf, dtype.compute.numpy).astype(dtype.numpy, copy=False)
    except OverflowError:
        raise wrong(
            "XL6002",
            f"input 'arg{number}': {leaf} does not fit {dtype}",
            "pass an array of a wider type",
        ) from None


def _shown(jitted: Jitted, arguments: Arguments) -> str:
    from xlac_sdk.programs.signature import shown

    given = dict.fromkeys(arguments.names, "")
    kept = [repr(program.compiled) for program in jitted._programs.kept()]
    programs = number_of(len(kept), "program") + (f", the last {kept[-1]}" if kept else "")
    return shown("Jitted", jitted._name, given, {"…": ""}, programs)


@overload
def jit(traced: Function) -> Jitted: ...
@overload
def jit(
    *,
    target: str = ...,
    threads: int | None = ...,
    cpu: str = ...,
    triple: str = ...,
    arch: str = ...,
    precision: str = ...,
    checked: Asked = ...,
    allow_kernels: bool | None = ...,
    max_compile_seconds: float | None = ...,
    max_compile_memory: int | None = ...,
) -> Callable[[Function], Jitted]: ...
def jit(
    traced: Callable[..., Any] | None = None,
    *,
    target: str = "cpu",
    threads: int | None = None,
    cpu: str = "",
    triple: str = "",
    arch: str = "",
    precision: str = "",
    checked: Asked = None,
    allow_kernels: bool | None = None,
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
) -> Any:
    """Compiles a function: `@xlac.jit` or `@xlac.jit(target="cpu", threads=2, precision="fast")`.

    The options are those of `xlac.compile`; `precision` is "default" or "fast" (docs/SPEC.md). The
    limits apply to each program, with its tracing. Raises SourceError for an unknown precision,
    LimitError for a limit that is not positive.
    """
    valid(max_compile_seconds, max_compile_memory)
    options: dict[str, Any] = {
        "target": target,
        "threads": threads,
        "cpu": cpu,
        "triple": triple,
        "arch": arch,
        "precision": chosen_precision(precision),
    }
    options |= {
        "checked": checked,
        "allow_kernels": allow_kernels,
        "max_compile_seconds": max_compile_seconds,
        "max_compile_memory": max_compile_memory,
    }
    if traced is None:
        return lambda inner: Jitted(inner, options)
    return Jitted(traced, options)
