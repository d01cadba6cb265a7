"""`xlac.jit`: Python functions, compiled once for each set of shapes and dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from xlac.compiler import compile
from xlac.frontends.nests import Nest, as_array, flatten, unflatten
from xlac.frontends.tracing import trace
from xlac.ir.op import Array
from xlac.model import Model
from xlac.programs import Programs

Function = TypeVar("Function", bound=Callable[..., Any])


class Jitted:
    """A function compiled for the shapes and dtypes of its arguments at the first call with them.

    Arguments are arrays, numbers (as f32 or i32 scalars) and nests of these; strings, booleans and None are
    compile-time constants. Python's control flow runs while tracing, so it is unrolled.
    """

    def __init__(self, traced: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, traced)
        self._function, self._options = traced, options
        self._programs: Programs[tuple[Any, Nest]] = Programs()

    def __call__(self, *args: Any, **named: Any) -> Any:
        leaves: list[Any] = []
        tree = flatten((args, named), leaves)
        arrays = [as_array(leaf) for leaf in leaves]
        key = (tree, tuple((a.shape, a.dtype.str) for a in arrays))
        program, result = self._programs.get(key, lambda: self._compile(tree, arrays))
        found = program(*arrays)
        outputs = list(found.values()) if isinstance(found, dict) else [found]
        return unflatten(result, outputs)

    def trace(self, *args: Any, **named: Any) -> Model:
        """The model that a call with these arguments would compile."""
        leaves: list[Any] = []
        tree = flatten((args, named), leaves)
        return self._trace(tree, [as_array(leaf) for leaf in leaves])[0]

    @property
    def programs(self) -> int:
        """How many programs are compiled and kept."""
        return len(self._programs)

    def _trace(self, tree: Nest, arrays: Sequence[Array]) -> tuple[Model, Nest]:
        return trace(self._function.__name__, self._function, tree, arrays)

    def _compile(self, tree: Nest, arrays: Sequence[Array]) -> tuple[Any, Nest]:
        model, result = self._trace(tree, arrays)
        return compile(model, **self._options), result


@overload
def jit(traced: Function) -> Jitted: ...
@overload
def jit(
    *, target: str = ..., threads: int | None = ..., cpu: str = ..., triple: str = ..., arch: str = ..., precision: str = ...
) -> Callable[[Function], Jitted]: ...
def jit(
    traced: Callable[..., Any] | None = None, *, target: str = "cpu", threads: int | None = None, cpu: str = "", triple: str = "",
    arch: str = "", precision: str = "",
) -> Any:  # fmt: skip
    """Compiles a function: `@xlac.jit` or `@xlac.jit(target="cpu", threads=2, precision="fast")`.

    What it takes means what it means to `xlac.compile`; `precision` is "default", or "fast", which docs/SPEC.md explains.
    """
    options = {"target": target, "threads": threads, "cpu": cpu, "triple": triple, "arch": arch, "precision": precision}
    if traced is None:
        return lambda inner: Jitted(inner, options)
    return Jitted(traced, options)
