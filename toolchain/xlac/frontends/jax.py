"""JAX functions as models: JAX itself lowers them to StableHLO, which is read as text.

Needs the optional extra `jax`. Arrays of types that NumPy has from `ml_dtypes` cross as what they are stored as.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.arrays import as_array
from xlac.frontends.stablehlo import load
from xlac.ir.dims import Symbol
from xlac.ir.op import Array
from xlac.model import Model
from xlac_sdk.source import Diagnostic, SourceError


@dataclass(frozen=True)
class Lowered:
    """A function lowered for arguments of some types.

    `takes` and `gives` are JAX's types of the leaves of its arguments and results, in order, `kept` the leaves that the
    model needs, `donated` those whose memory the function may have.
    """

    model: Model
    tree_in: Any
    tree_out: Any
    takes: tuple[Any, ...]
    gives: tuple[Any, ...]
    kept: tuple[int, ...]
    donated: frozenset[int]

    def flat(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The leaves of arguments. Raises SourceError when they are nested otherwise than the examples were."""
        import jax

        leaves, tree = jax.tree.flatten((tuple(args), dict(named)))
        if tree != self.tree_in:
            raise SourceError(Diagnostic("XL6001", f"the arguments are {tree}, and the function was lowered for {self.tree_in}"))
        return list(leaves)

    def inputs(self, leaves: Sequence[Any]) -> list[Array]:
        """What the model takes, from the leaves of arguments."""
        return [inward(leaves[n], self.takes[n]) for n in self.kept]

    def results(self, arrays: Sequence[Array]) -> Any:
        """What the function gives, from what the model gives."""
        import jax

        return jax.tree.unflatten(self.tree_out, [outward(a, type) for a, type in zip(arrays, self.gives, strict=True)])


def lower(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any], options: Mapping[str, Any]) -> Lowered:
    """Lowers a function, which may be one of `jax.jit`, for arguments that are arrays or `jax.ShapeDtypeStruct`s.

    `options` are those of `jax.jit`. Sizes of `jax.export.symbolic_shape` stay symbolic. Raises SourceError.
    """
    jax = required()
    jitted = function if hasattr(function, "lower") and not options else jax.jit(function, **options)
    symbolic = symbols_of(jax, (args, named))
    return _exported(jax, jitted, args, named, symbolic) if symbolic else _lowered(jax, jitted, args, named)


def required() -> Any:
    """JAX. Raises SourceError where it is not installed."""
    try:
        import jax
        import jax.export
    except ImportError:
        raise SourceError(Diagnostic("XL7213", "xlac.from_jax needs JAX", hint="pip install 'xlac[jax]'")) from None
    return jax


def symbols_of(jax: Any, tree: Any) -> bool:
    """Whether a shape among arguments has a size that is not a number."""
    shapes = [getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(tree)]
    return any(not isinstance(size, int) for shape in shapes for size in shape)


def _lowered(jax: Any, jitted: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Lowered:
    lowered = jitted.lower(*args, **named)
    infos = jax.tree.leaves(lowered.args_info)
    known = lowered._lowering.compile_args.get("kept_var_idx")  # JAX tells it nowhere else
    kept = tuple(range(len(infos))) if known is None else tuple(sorted(known))
    donated = frozenset(n for n, info in enumerate(infos) if info.donated)
    gives = tuple(jax.tree.leaves(lowered.out_info))
    return Lowered(load(lowered.as_text()), lowered.in_tree, lowered.out_tree, tuple(infos), gives, kept, donated)


def _exported(jax: Any, jitted: Any, args: Sequence[Any], named: Mapping[str, Any], symbolic: bool) -> Lowered:
    """With sizes left open: the symbols of the model have JAX's names."""
    exported = jax.export.export(jitted)(*args, **named)
    kept = tuple(exported.module_kept_var_idx)
    dims: dict[str, Symbol] = {}
    for position, number in enumerate(kept):
        for axis, size in enumerate(exported.in_avals[number].shape):
            if not isinstance(size, int) and str(size).isidentifier():
                dims[f"arg{position}_{axis}"] = Symbol(str(size), min=1)
    model = load(exported.mlir_module(), dims=dims)
    return Lowered(model, exported.in_tree, exported.out_tree, exported.in_avals, exported.out_avals, kept, frozenset())


# ---- arrays ------------------------------------------------------------------------------------------


def is_key(dtype: Any) -> bool:
    """Whether an element type is one of JAX's keys for random numbers."""
    return not isinstance(dtype, np.dtype) and hasattr(dtype, "_impl")


def inward(leaf: Any, type: Any) -> Array:
    """A leaf of the arguments as the array that the model takes."""
    if is_key(type.dtype):
        import jax

        return np.asarray(jax.random.key_data(leaf))
    array = as_array(leaf)
    if isinstance(leaf, bool | int | float | complex):  # JAX gives them the type that it lowered for
        array = array.astype(type.dtype)
    if array.dtype != type.dtype:
        raise SourceError(Diagnostic("XL6002", f"an argument is {array.dtype}, and the function was lowered for {type.dtype}"))
    return stored(array)


def stored(array: Array) -> Array:
    """An array as xlac holds it: parts of complex numbers along a last axis, minifloats as codes, narrow integers in 8 bits."""
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array).view(array.real.dtype).reshape(*array.shape, 2)
    if narrow(array.dtype):
        return array.astype(np.uint8 if array.dtype.name.startswith("u") else np.int8)
    return array.view(np.uint8) if minifloat(array.dtype) else array


def narrow(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of ml_dtypes' integers of fewer than 8 bits."""
    return dtype.isbuiltin != 1 and dtype.name.startswith(("int", "uint"))


def minifloat(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of ml_dtypes' floats of up to 8 bits."""
    return dtype.isbuiltin != 1 and dtype.name.startswith("float") and dtype.itemsize == 1


def outward(array: Array, type: Any) -> Any:
    """A result of the model as the function gives it."""
    if is_key(type.dtype):
        import jax

        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=type.dtype._impl.name)
    dtype = np.dtype(type.dtype)
    if dtype.kind == "c":
        return np.ascontiguousarray(array).view(dtype).reshape(array.shape[:-1])
    if dtype.name.startswith("void"):  # float0, the derivative of integers
        return np.zeros(array.shape, dtype)
    if narrow(dtype):
        return array.astype(dtype)
    return array.view(dtype) if minifloat(dtype) else array
