"""`xlac.jit`: Python functions, compiled once for each set of shapes and dtypes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, overload

from xlac.api import compile
from xlac.frontends.arguments import Arguments
from xlac.frontends.call_leaves import argument_of, arrays_of, kind_of, leaf_of
from xlac.frontends.pytree import LEAF, flatten, unflatten
from xlac.frontends.receivers import Receiver, is_of_class, names_of_leaves, received, unchanged
from xlac.frontends.traced_function import Traced, inlined, is_tracing, trace
from xlac.frontends.tracing import Tensor
from xlac.integrations.direct_calls import DirectCall, JittedProgram
from xlac.model import Model, chosen_precision
from xlac.options import tuning_seconds
from xlac.runtime.programs import Programs
from xlac.support.failures import Asked
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
    well; everything else in the object is a constant, whose change causes a new compilation. The
    object is bound, or the first argument of a function that a class defines.
    """

    def __init__(self, traced: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, traced)
        self._function, self._options = traced, options
        self._name = getattr(traced, "__name__", type(traced).__name__)
        self._arguments = Arguments(traced)
        self._of_class = is_of_class(traced)
        self._programs: Programs[JittedProgram] = Programs()
        self._latest: DirectCall | None = None  # for the arrays of the call before

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if not named and not is_tracing():  # the usual call, which looks at arrays alone
            latest = self._latest
            if latest is not None:
                outputs = latest.function(*args)
                if outputs is not NotImplemented:
                    return outputs if latest.result is None else latest.rebuilt(outputs)
            key = None if self._of_class else arrays_of(args)
            program = None if key is None else self._programs.find(key)
            if program is not None:
                outputs = self._outputs(program, args, None, args, named)
                self._latest = DirectCall.of(program, len(args))
                return outputs
        receiver, args, named = self._received(args, named)
        return (self._inline if is_tracing() else self._run)(receiver, args, named)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else JittedMethod(self, instance)

    def __repr__(self) -> str:
        return _shown(self, self._arguments)

    def trace(self, /, *args: Any, **named: Any) -> Model:
        """The model that a call with these arguments compiles."""
        return self._call(*self._received(args, named)).traced().model

    @property
    def programs(self) -> int:
        """The number of cached programs."""
        return len(self._programs)

    def _received(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The object of a method, where this is one, and the other arguments."""
        if not self._of_class:
            return None, args, named
        return received(self._arguments.positional, args, named)

    def _run(self, receiver: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            call = self._call(receiver, args, named)
            program = self._programs.get(call.key, lambda: self._compile(call))
        except SourceError as error:
            self._name_inputs(error, receiver, args, named)
            raise
        return self._outputs(program, call.leaves, receiver, args, named)

    def _outputs(
        self,
        program: JittedProgram,
        leaves: Sequence[Any],
        receiver: Any,
        args: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """The results of a program for the leaves of a call's arguments."""
        try:
            outputs = program.compiled(
                *[
                    leaves[number] if dtype is None else argument_of(leaves[number], dtype, number)
                    for number, dtype in program.takes
                ]
            )
        except SourceError as error:
            self._name_inputs(error, receiver, args, named)
            raise
        if isinstance(outputs, dict):
            return unflatten(program.result, list(outputs.values()))
        return outputs if program.result == LEAF else unflatten(program.result, [outputs])

    def _name_inputs(
        self, error: SourceError, receiver: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Puts the function's own names into an error in place of a program's arg0, arg1, …"""
        names = {
            f"'arg{number}'": f"'{name}'"
            for number, name in names_of_leaves(self._arguments, receiver, args, named)
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
        kinds = tuple([kind_of(leaf, number) for number, leaf in enumerate(leaves)])
        plain = None if named or held is not None else arrays_of(args)
        return _Call(self, args, named, held, leaves, split, (tree, kinds), plain)

    def _compile(self, call: _Call) -> JittedProgram:
        with within(self._options["max_compile_seconds"], self._options["max_compile_memory"]):
            checkpoint("reading the model")
            model, takes, result = call.traced()
            return JittedProgram(compile(model, **self._options), takes, result)

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


class _Call(NamedTuple):
    """A call: the leaves of its arguments, followed from `split` on by those of the method's
    object, and what its program is compiled for; of arrays alone that is also `arrays`.
    """

    jitted: Jitted
    args: tuple[Any, ...]
    named: dict[str, Any]
    receiver: Receiver | None
    leaves: list[Any]
    split: int
    compiled_for: tuple[Any, tuple[Any, ...]]
    arrays: tuple[Any, ...] | None

    @property
    def key(self) -> tuple[Any, ...]:
        """The cache key of its program."""
        return self.compiled_for if self.arrays is None else self.arrays

    def traced(self) -> Traced:
        """Traces the function. Raises SourceError for arguments that it does not take."""
        jitted, receiver, split = self.jitted, self.receiver, self.split
        jitted._arguments.checked(
            self.args if receiver is None else (receiver.owner, *self.args), self.named
        )
        tree, kinds = self.compiled_for
        tree = tree if receiver is None else tree[0]

        def function(tensors: list[Tensor]) -> Any:
            args, named = unflatten(tree, tensors[:split])
            if receiver is None:
                return jitted._function(*args, **named)
            again = receiver.rebuilt(tensors[split:])
            return unchanged(
                jitted._name, again, lambda owner: jitted._function(owner, *args, **named)
            )

        return trace(
            jitted._name, function, [leaf_of(kind, number) for number, kind in enumerate(kinds)]
        )


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
    tune: float | bool | None = ...,
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
    tune: float | bool | None = None,
) -> Any:
    """Compiles a function: `@xlac.jit` or `@xlac.jit(target="cpu", threads=2, precision="fast")`.

    The options are those of `xlac.compile`; `precision` is "default" or "fast" (docs/SPEC.md). The
    limits apply to each program, with its tracing. Raises SourceError for an unknown precision and
    an impossible time to tune, LimitError for a limit that is not positive.
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
        "tune": tuning_seconds(tune),
    }
    if traced is None:
        return lambda inner: Jitted(inner, options)
    return Jitted(traced, options)
