"""`xlac.from_jax`: compiles functions of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from xlac.api import compile
from xlac.frontends.arguments import Arguments
from xlac.frontends.jax import LoweredFunction, jitted, lower
from xlac.model import Model
from xlac.runtime.programs import Programs
from xlac.support.failures import Asked
from xlac_sdk.host.array_values import wrong
from xlac_sdk.support.limits import checkpoint, within


class JaxFunction:
    """A compiled function that takes and returns the pytrees of the original; results are NumPy
    arrays.

    Static arguments of `jax.jit`, by position or by name, are part of the program: the function is
    lowered and compiled once for each set of their values, and the last `programs.PROGRAMS` are
    cached. Other arguments must have the shapes and dtypes of the examples. A donated argument that
    is a `jax.Array` is deleted after the call, as in JAX.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        named: Mapping[str, Any],
        jit: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._name = getattr(function, "__name__", type(function).__name__)
        self._arguments, self._options = Arguments(function), dict(options)
        self._jitted, self._static = jitted(function, jit, self._arguments.positional)
        self._examples = self._arguments.ordered(args, named)
        self._programs: Programs[_JaxProgram] = Programs()
        split = self._split(*self._examples)
        self._first = self._programs.get(split.key, lambda: self._compile(split))

    @property
    def lowered(self) -> LoweredFunction:
        """The function lowered for the examples."""
        return self._first.lowered

    @property
    def program(self) -> Any:
        """The program for the examples."""
        return self._first.compiled

    @property
    def model(self) -> Model:
        """The model that the function was lowered to, for the examples."""
        return self.lowered.model

    @property
    def programs(self) -> int:
        """The number of cached programs, one for each set of static values."""
        return len(self._programs)

    def __repr__(self) -> str:
        from xlac.support.signature import shown

        given = dict(zip(self._first.labels, map(_text, self.lowered.takes), strict=True))
        static = [
            self._arguments.name(at)
            for at in self._static.positions(len(self._arguments.positional))
        ]
        given |= dict.fromkeys([*static, *sorted(self._static.names)], "static")
        gives = dict(zip(self.lowered.given(), map(_text, self.lowered.gives), strict=True))
        return shown("JaxFunction", self._name, given, gives, f"{self.programs} programs")

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        split = self._split(*self._arguments.ordered(args, named))
        program = self._programs.get(split.key, lambda: self._compile(split))
        lowered = program.lowered
        leaves = lowered.flat(split.args, split.named)
        found = program.compiled(*lowered.inputs(leaves, program.labels))
        arrays = list(found.values()) if isinstance(found, dict) else [found]
        for number in lowered.donated:
            if hasattr(leaves[number], "delete"):
                leaves[number].delete()
        return lowered.results(arrays)

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
        key = tuple((name, _key(value)) for name, value in sorted(static.items()))
        kept = tuple(value for at, value in enumerate(args) if at not in gone)
        return _Split(kept, {n: v for n, v in named.items() if n not in names}, gone, names, key)

    def _compile(self, split: _Split) -> _JaxProgram:
        """Lowers and compiles the function for the static values of a call, and the examples'
        shapes and dtypes of traced arguments.
        """
        examples = self._split(*self._examples)
        args = list(examples.args)
        for at in sorted(split.gone):
            args.insert(at, split.gone[at])
        with within(self._options["max_compile_seconds"], self._options["max_compile_memory"]):
            checkpoint("reading the model")
            lowered = lower(self._jitted, args, {**examples.named, **split.names})
            traced = [
                name for at, name in enumerate(self._arguments.positional) if at not in split.gone
            ]
            return _JaxProgram(
                lowered, compile(lowered.model, **self._options), lowered.labels(traced)
            )


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


def _key(value: Any) -> Hashable:
    """A static value as part of a cache key, which tells 1, 1.0 and True apart, and 0.0 and -0.0,
    although they are equal in Python.
    """
    if isinstance(value, tuple):
        return type(value), tuple(map(_key, value))
    return type(value), repr(value) if isinstance(value, float | complex) else value


def _text(aval: Any) -> str:
    return f"{aval.dtype}[{', '.join(map(str, aval.shape))}]"


def from_jax(
    function: Callable[..., Any],
    *example_args: Any,
    jit: Mapping[str, Any] | None = None,
    target: str = "cpu",
    threads: int | None = None,
    checked: Asked = None,
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
    **example_named: Any,
) -> JaxFunction:
    """Compiles a function of JAX for arguments with the shapes and dtypes of the examples: arrays,
    pytrees of these, or `jax.ShapeDtypeStruct`s.

    `jit` are options of `jax.jit`, such as static_argnums and donate_argnums; a function that is
    jitted already has its own. Sizes of `jax.export.symbolic_shape` stay open. `checked` and the
    limits are those of `xlac.compile`, for each program; JAX's own tracing is not interrupted.
    Needs JAX: pip install 'xlac[jax]'. Raises SourceError or LimitError.
    """
    limits = {"max_compile_seconds": max_compile_seconds, "max_compile_memory": max_compile_memory}
    options = {"target": target, "checked": checked, **limits} | (
        {} if threads is None else {"threads": threads}
    )
    return JaxFunction(function, example_args, example_named, dict(jit or {}), options)
