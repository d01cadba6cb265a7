"""`xlac.from_jax`: compiles functions of JAX."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from xlac.api import compile
from xlac.frontends.arguments import Arguments
from xlac.frontends.jax.arrays import as_example, leaf_type
from xlac.frontends.jax.exported import examples_of, is_exported
from xlac.frontends.jax.lowered import LoweredFunction, flattened, labels, lower, symbols_of
from xlac.frontends.jax.static import jitted, required
from xlac.frontends.stablehlo.host_calls import host_calls
from xlac.integrations.framework_jit import WrappedJaxFunction, is_wrapper, refuse_examples
from xlac.model import Model
from xlac.options import tuning_seconds
from xlac.runtime.programs import PROGRAMS, Programs
from xlac.support.constant_key import constant_key
from xlac.support.failures import Asked
from xlac_sdk.host.array_values import wrong
from xlac_sdk.support.choices import chosen
from xlac_sdk.support.limits import checkpoint, within

JIT_OPTIONS = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


class CallbackWarning(UserWarning):
    """A program leaves out calls of Python functions."""


class JaxFunction:
    """A compiled function that takes and returns the pytrees of the original.

    It behaves as a function of `jax.jit`: each set of pytrees, shapes, dtypes and static values is
    lowered and compiled once, when it is first met, and the last `programs.PROGRAMS` are cached.
    Examples with symbolic sizes keep it to one program for each set of static values, and other
    arguments are errors. Results are NumPy arrays, or `jax.Array`s on request. A donated argument
    that is a `jax.Array` is deleted after the call, as in JAX. Pickled, it is compiled again.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        named: Mapping[str, Any],
        jit: Mapping[str, Any],
        options: Mapping[str, Any],
        results: str = "numpy",
        drops: bool = False,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._name = getattr(function, "__name__", type(function).__name__)
        self._arguments, self._options = Arguments(function), dict(options)
        self._jit, self._as_jax, self._drops = dict(jit), results == "jax", drops
        self._jitted, self._static = jitted(function, jit, self._arguments.positional)
        self._programs: Programs[_JaxProgram] = Programs()
        self._recent: dict[Hashable, _JaxProgram] = {}  # by static values
        self._examples: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._open = False
        self._first: _JaxProgram | None = None
        if args or named or not self._arguments.needed:
            self._examples = self._arguments.ordered(args, named)
            self._open = symbols_of(required(), self._examples)
            split = self._split(*self._examples)
            leaves, tree = flattened(split.args, split.named)
            self._first = self._program(split, leaves, tree)

    @property
    def _example(self) -> _JaxProgram:
        if self._first is None:
            problem = "there is no program yet: no example arguments were given"
            raise wrong("XL6001", problem, "call it, or give from_jax examples")
        return self._first

    @property
    def lowered(self) -> LoweredFunction:
        """The function lowered for the examples, or else for the first call."""
        return self._example.lowered

    @property
    def program(self) -> Any:
        """The program for the examples, or else for the first call."""
        return self._example.compiled

    @property
    def model(self) -> Model:
        """The model that the function was lowered to, for the examples or else the first call."""
        return self.lowered.model

    @property
    def programs(self) -> int:
        """The number of cached programs, one for each set of types and static values."""
        return len(self._programs)

    def __repr__(self) -> str:
        from xlac_sdk.programs.signature import shown

        if self._first is None:
            return f"JaxFunction({self._name}, not compiled yet)"
        given = dict(zip(self._first.labels, map(_text, self.lowered.takes), strict=True))
        static = [
            self._arguments.name(at)
            for at in self._static.positions(len(self._arguments.positional))
        ]
        given |= dict.fromkeys([*static, *sorted(self._static.names)], "static")
        gives = dict(zip(self.lowered.given(), map(_text, self.lowered.gives), strict=True))
        return shown("JaxFunction", self._name, given, gives, f"{self.programs} programs")

    def __reduce__(self) -> tuple[Any, ...]:
        examples = self._examples
        if examples is not None:
            split = self._split(*examples)
            leaves, tree = flattened(split.args, split.named)
            args, named = tree.unflatten(map(as_example, leaves))
            examples = self._joined(split, args), {**named, **split.names}
        function = self.__wrapped__  # type: ignore[attr-defined]
        return JaxFunction, (
            function,
            *(examples or ((), {})),
            self._jit,
            self._options,
            "jax" if self._as_jax else "numpy",
            self._drops,
        )

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        split = self._split(*self._arguments.ordered(args, named))
        leaves, tree = flattened(split.args, split.named)
        program, inputs = self._recent.get(split.key), None
        if program is not None and tree == program.lowered.tree_in and self._is_current(program):
            inputs = program.lowered.ready(leaves, program.labels)
        if program is None or inputs is None:
            program = self._program(split, leaves, tree)
            if self._open:
                program.lowered.fits(tree)
            inputs = program.lowered.inputs(leaves, program.labels, cast=not self._open)
        outputs = program.compiled(*inputs)
        arrays = list(outputs.values()) if isinstance(outputs, dict) else [outputs]
        for number in program.lowered.donated:
            if hasattr(leaves[number], "delete"):
                leaves[number].delete()
        return program.lowered.results(arrays, self._as_jax)

    def _is_current(self, program: _JaxProgram) -> bool:
        return self._open or program.lowered.wide == program.config.jax_enable_x64

    def _program(self, split: _Split, leaves: Sequence[Any], tree: Any) -> _JaxProgram:
        """The program for a call's static values, pytree and types of leaves. Raises SourceError
        for an argument that is not an array or number.
        """
        config = required().config
        if self._open:
            examples = self._split(*(self._examples or ((), {})))
            program = self._programs.get(
                split.key, lambda: self._compile(split, examples.args, examples.named)
            )
        else:
            names = labels(tree, self._traced(split))
            known = [leaf_type(leaf, name) for leaf, name in zip(leaves, names, strict=True)]
            key = split.key, tree, tuple(type for _, type in known), config.jax_enable_x64
            args, named = tree.unflatten([leaf for leaf, _ in known])
            program = self._programs.get(key, lambda: self._compile(split, args, named))
        if len(self._recent) >= PROGRAMS and split.key not in self._recent:
            self._recent.clear()
        self._recent[split.key] = program
        self._first = self._first or program
        return program

    def _split(self, args: Sequence[Any], named: Mapping[str, Any]) -> _Split:
        """Separates the static arguments of a call from the traced ones. Raises SourceError for a
        static value without a hash.
        """
        gone = {at: args[at] for at in self._static.positions(len(args))}
        names = {name: value for name, value in named.items() if name in self._static.names}
        if not gone and not names:
            return _Split(tuple(args), named, gone, names, ())
        static = {**{self._arguments.name(at): value for at, value in gone.items()}, **names}
        for name, value in static.items():
            try:
                hash(value)
            except TypeError:
                problem = f"input '{name}' is static, and a {type(value).__name__} has no hash"
                raise wrong("XL6002", problem, "pass a tuple, or what is hashable") from None
        key = tuple((name, constant_key(value)) for name, value in sorted(static.items()))
        kept = tuple(value for at, value in enumerate(args) if at not in gone)
        return _Split(kept, {n: v for n, v in named.items() if n not in names}, gone, names, key)

    def _compile(self, split: _Split, args: Sequence[Any], named: Mapping[str, Any]) -> _JaxProgram:
        """Lowers and compiles the function for static values, and the shapes and dtypes of traced
        arguments.
        """
        whole = self._joined(split, args)
        with within(self._options["max_compile_seconds"], self._options["max_compile_memory"]):
            checkpoint("reading the model")
            with host_calls(self._drops) as calls:
                lowered = lower(self._jitted, whole, {**named, **split.names})
            if calls.dropped:
                places = ", ".join(calls.dropped)
                said = f"{self._name}: calls of Python functions are left out: {places}"
                warnings.warn(said, CallbackWarning, stacklevel=4)
            names = labels(lowered.tree_in, self._traced(split))
            compiled = compile(lowered.model, **self._options)
            return _JaxProgram(lowered, compiled, names, required().config)

    def _joined(self, split: _Split, args: Sequence[Any]) -> tuple[Any, ...]:
        """Traced positional arguments and static ones, in order."""
        whole = list(args)
        for at in sorted(split.gone):
            whole.insert(at, split.gone[at])
        return tuple(whole)

    def _traced(self, split: _Split) -> list[str]:
        """The names of the positional arguments that are not static."""
        return [name for at, name in enumerate(self._arguments.positional) if at not in split.gone]


class _Split(NamedTuple):
    """The arguments of a call: traced ones (`args`, `named`), static ones by position (`gone`) and
    by name (`names`), and the cache key of the static ones.
    """

    args: tuple[Any, ...]
    named: Mapping[str, Any]
    gone: Mapping[int, Any]
    names: Mapping[str, Any]
    key: tuple[tuple[str, Hashable], ...]


class _JaxProgram(NamedTuple):
    lowered: LoweredFunction
    compiled: Any
    labels: Sequence[str]  # of the leaves of the arguments
    config: Any  # JAX's


def _text(aval: Any) -> str:
    return f"{aval.dtype}[{', '.join(map(str, aval.shape))}]"


def from_jax(
    function: Callable[..., Any],
    *example_args: Any,
    jit: Mapping[str, Any] | None = None,
    target: str = "cpu",
    threads: int | None = None,
    checked: Asked = None,
    allow_kernels: bool | None = None,
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
    tune: float | bool | None = None,
    results: str = "numpy",
    drop_callbacks: bool = False,
    **example_named: Any,
) -> JaxFunction | WrappedJaxFunction:
    """Compiles a function of JAX, now for arguments with the shapes and dtypes of the examples
    (arrays, pytrees of these, or `jax.ShapeDtypeStruct`s), and for others when it is called with
    them, as `jax.jit` does. Without examples the first call compiles.

    The function may be a program of `jax.export`, which brings its own examples. `results` is
    "numpy" or "jax" (`jax.Array`s). `jit` are options of `jax.jit`, such as static_argnums and
    donate_argnums, which may also be given by name; a function that is jitted already has its own.
    Functions of equinox's `filter_jit` and flax's `nnx.jit` take no examples. Sizes of
    `jax.export.symbolic_shape` stay open. Calls of Python functions are steps of
    the program, on targets cpu and reference; `drop_callbacks` leaves out those without results
    (`jax.debug.print`), with a CallbackWarning. `checked`, `allow_kernels`, `tune`
    and the limits are those of `xlac.compile`, for each program; JAX's own tracing is not
    interrupted.
    Needs JAX: pip install 'xlac[jax]'. Raises SourceError or LimitError.
    """
    limits = {"max_compile_seconds": max_compile_seconds, "max_compile_memory": max_compile_memory}
    options = {"target": target, "checked": checked, "allow_kernels": allow_kernels, **limits}
    options["tune"] = tuning_seconds(tune)
    if threads is not None:
        options["threads"] = threads
    if is_exported(function):
        exported: Any = function
        if not example_args and not example_named:
            example_args, example_named = examples_of(exported)
        function = exported.call
    results = chosen("results", results, ("numpy", "jax"))
    named = {name: example_named.pop(name) for name in JIT_OPTIONS if name in example_named}
    given = {**(jit or {}), **named}
    if is_wrapper(function):
        if example_args or example_named or given:
            refuse_examples(getattr(function, "__name__", "the function"))

        def program(inner: Any, its: Mapping[str, Any]) -> JaxFunction:
            return JaxFunction(inner, (), {}, its, options, "jax", drop_callbacks)

        return WrappedJaxFunction(function, program)
    return JaxFunction(
        function, example_args, example_named, given, options, results, drop_callbacks
    )
