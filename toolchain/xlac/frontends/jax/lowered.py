"""JAX functions as models: JAX lowers them to StableHLO text, which is then imported.

Needs the optional extra `jax`. Arrays with dtypes of `ml_dtypes` are passed in their storage type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xlac.frontends.jax import devices
from xlac.frontends.jax.arrays import as_it_is, inward, is_plain, outward, special
from xlac.frontends.jax.static import required
from xlac.frontends.pytree import endless
from xlac.frontends.stablehlo import load
from xlac.frontends.stablehlo.host_calls import calling
from xlac.ir.dims import Symbol
from xlac.ir.op import Array
from xlac.model import Model
from xlac_sdk.source import Diagnostic, SourceError


@dataclass(frozen=True)
class LoweredFunction:
    """A function lowered for arguments of given types.

    `takes` and `gives` are JAX's types of the leaves of arguments and results, in order; `kept` are
    the indices of the leaves that the model uses, `donated` those whose buffers the function may
    overwrite. `wide`: lowered while JAX had 64-bit types.
    """

    model: Model
    tree_in: Any
    tree_out: Any
    takes: tuple[Any, ...]
    gives: tuple[Any, ...]
    kept: tuple[int, ...]
    donated: frozenset[int]
    wide: bool = False

    def fits(self, tree: Any) -> None:
        """Raises SourceError if a pytree of arguments differs from that of the examples."""
        if tree != self.tree_in:
            problem = f"the arguments are {tree}, and the function was lowered for {self.tree_in}"
            raise SourceError(Diagnostic("XL6001", problem))

    def ready(self, leaves: Sequence[Any], labels: Sequence[str]) -> list[Array] | None:
        """The model's inputs, where every leaf has the type that the function was lowered for; None
        otherwise.
        """
        taken = []
        for leaf, (number, type, dtype, shape, weak) in zip(leaves, self._taken, strict=True):
            array = (
                special(leaf, type, labels[number])
                if dtype is None
                else as_it_is(leaf, dtype, shape, weak)
            )
            if array is None:
                return None
            taken.append(array)
        return taken if self._all else [taken[n] for n in self.kept]

    def inputs(
        self, leaves: Sequence[Any], labels: Sequence[str], cast: bool = False
    ) -> list[Array]:
        """The model's inputs, from the leaves of the arguments; `labels` name each leaf in
        messages. With `cast`, 64-bit arrays become the types that JAX converts them to. Raises
        SourceError.
        """
        return [inward(leaves[n], self.takes[n], labels[n], cast) for n in self.kept]

    @cached_property
    def _all(self) -> bool:
        """Whether the model takes every leaf."""
        return len(self.kept) == len(self.takes)

    @cached_property
    def _taken(self) -> list[tuple[int, Any, np.dtype[Any] | None, tuple[int, ...], bool]]:
        """For each leaf that the model takes: its number and type, its dtype if it is plain and the
        shape is static, its shape, and whether its type is weak.
        """
        return [
            (
                n,
                t,
                np.dtype(t.dtype) if is_plain(t.dtype) and not is_open(t) else None,
                tuple(t.shape),
                bool(getattr(t, "weak_type", False)),
            )
            for n, t in enumerate(self.takes)
        ]

    @cached_property
    def _special(self) -> list[tuple[int, Any]]:
        """The results that are converted, with their types."""
        return [(n, type) for n, type in enumerate(self.gives) if not is_plain(type.dtype)]

    @cached_property
    def _movable(self) -> list[int]:
        """The results that a device can hold: all but JAX's tangents of integers."""
        import jax

        return [n for n, type in enumerate(self.gives) if type.dtype != jax.dtypes.float0]

    @cached_property
    def _placing(self) -> list[Any]:
        """For each of these, what placing it takes (`devices.placing`)."""
        return [devices.placing(self.gives[n]) for n in self._movable]

    def given(self) -> list[str]:
        """The name of each leaf of the results for messages: "" if there is only one."""
        import jax

        paths = jax.tree_util.tree_flatten_with_path(
            jax.tree.unflatten(self.tree_out, range(len(self.gives)))
        )[0]
        return [str(jax.tree_util.keystr(path)) for path, _ in paths]

    def results(self, arrays: Sequence[Array], as_jax: bool = False) -> Any:
        """The function's results as a pytree, from the model's outputs; `as_jax` makes them
        `jax.Array`s, which share the outputs' memory where that is aligned.
        """
        leaves: list[Any] = list(arrays[: len(self.gives)])  # without that of side effects
        for n, type in self._special:
            leaves[n] = outward(leaves[n], type)
        if as_jax:
            placed = devices.placed([leaves[n] for n in self._movable], self._placing)
            for n, array in zip(self._movable, placed, strict=True):
                leaves[n] = array
        return self.tree_out.unflatten(leaves)


def is_open(type: Any) -> bool:
    """Whether a size of a type is symbolic."""
    return any(not isinstance(size, int) for size in type.shape)


def flattened(args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of arguments, and their pytree. Raises SourceError for an endless one."""
    import jax

    try:
        leaves, tree = jax.tree.flatten((tuple(args), dict(named)))
    except (RecursionError, SystemError):  # raised inside JAX, which does not check
        raise endless() from None
    return leaves, tree


def labels(tree: Any, names: Sequence[str]) -> list[str]:
    """The name of each leaf of the arguments for messages, given the names of the positional
    parameters: `x`, `params['w'][0]`.
    """
    import jax

    whole = jax.tree.unflatten(tree, range(tree.num_leaves))
    return [_label(path, names) for path, _ in jax.tree_util.tree_flatten_with_path(whole)[0]]


def _label(path: Sequence[Any], names: Sequence[str]) -> str:
    import jax

    (kind, first, *rest) = path
    if kind.idx:
        name = str(first.key)
    else:
        name = names[first.idx] if first.idx < len(names) else f"args[{first.idx}]"
    return name + str(jax.tree_util.keystr(tuple(rest)))


def lower(jitted: Any, args: Sequence[Any], named: Mapping[str, Any]) -> LoweredFunction:
    """Lowers a function of `jax.jit` for arguments that are arrays or `jax.ShapeDtypeStruct`s.

    Sizes of `jax.export.symbolic_shape` stay symbolic. Raises SourceError.
    """
    jax = required()
    symbolic = symbols_of(jax, (args, named))
    return (
        _exported(jax, jitted, args, named, symbolic)
        if symbolic
        else _lowered(jax, jitted, args, named)
    )


def symbols_of(jax: Any, tree: Any) -> bool:
    """Whether the shape of any argument has a symbolic size."""
    shapes = [getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(tree)]
    return any(not isinstance(size, int) for shape in shapes for size in shape)


def _lowered(
    jax: Any, jitted: Any, args: Sequence[Any], named: Mapping[str, Any]
) -> LoweredFunction:
    lowered = jitted.lower(*args, **named)
    infos = jax.tree.leaves(lowered.args_info)
    # JAX offers no other access to these
    known = lowered._lowering.compile_args.get("kept_var_idx")
    calling(lowered._lowering.compile_args.get("host_callbacks") or ())
    kept = tuple(range(len(infos))) if known is None else tuple(sorted(known))
    donated = frozenset(n for n, info in enumerate(infos) if info.donated)
    gives = tuple(jax.tree.leaves(lowered.out_info))
    return LoweredFunction(
        load(lowered.as_text()),
        lowered.in_tree,
        lowered.out_tree,
        tuple(jax.tree.leaves(lowered.in_avals)),
        gives,
        kept,
        donated,
        bool(jax.config.jax_enable_x64),
    )


def _exported(
    jax: Any, jitted: Any, args: Sequence[Any], named: Mapping[str, Any], symbolic: bool
) -> LoweredFunction:
    """Exports with symbolic sizes; the model's symbols keep JAX's names."""
    try:
        exported = jax.export.export(jitted)(*args, **named)
    except (NotImplementedError, RuntimeError) as error:
        # what JAX says of calls of Python functions, and of those with results of open sizes
        if not any(said in str(error) for said in ("host_callbacks", "std::bad_cast")):
            raise
        problem = "JAX lowers no calls of Python functions where sizes are open"
        hint = "give examples of fixed shapes: other shapes compile when they come"
        raise SourceError(Diagnostic("XL7216", problem, hint=hint)) from None
    kept = tuple(exported.module_kept_var_idx)
    dims = dims_of(exported)
    model = load(exported.mlir_module(), dims=dims)
    return LoweredFunction(
        model,
        exported.in_tree,
        exported.out_tree,
        exported.in_avals,
        exported.out_avals,
        kept,
        frozenset(),
        bool(jax.config.jax_enable_x64),
    )


def dims_of(exported: Any) -> dict[str, Symbol]:
    """The symbolic sizes of an exported program that are one symbol, by the axis of the module's
    argument: `arg0_1` is the second of the first.
    """
    dims: dict[str, Symbol] = {}
    for position, number in enumerate(exported.module_kept_var_idx):
        for axis, size in enumerate(exported.in_avals[number].shape):
            if not isinstance(size, int) and str(size).isidentifier():
                dims[f"arg{position}_{axis}"] = Symbol(str(size), min=1)
    return dims
