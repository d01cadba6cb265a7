"""JAX functions as models: JAX lowers them to StableHLO text, which is then imported.

Needs the optional extra `jax`. Arrays with dtypes of `ml_dtypes` are passed in their storage type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from xlac.frontends.jax_arrays import as_it_is, inward, is_plain, outward
from xlac.frontends.pytree import endless
from xlac.frontends.stablehlo import load
from xlac.ir.dims import Symbol
from xlac.ir.op import Array
from xlac.model import Model
from xlac_sdk.source import Diagnostic, SourceError


@dataclass(frozen=True)
class LoweredFunction:
    """A function lowered for arguments of given types.

    `takes` and `gives` are JAX's types of the leaves of arguments and results, in order; `kept` are
    the indices of the leaves that the model uses, `donated` those whose buffers the function may
    overwrite.
    """

    model: Model
    tree_in: Any
    tree_out: Any
    takes: tuple[Any, ...]
    gives: tuple[Any, ...]
    kept: tuple[int, ...]
    donated: frozenset[int]

    def flat(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The leaves of the arguments. Raises SourceError if their pytree differs from that of the
        example arguments.
        """
        import jax

        try:
            leaves, tree = jax.tree.flatten((tuple(args), dict(named)))
        except (RecursionError, SystemError):  # of JAX's, which does not look
            raise endless() from None
        if tree != self.tree_in:
            raise SourceError(
                Diagnostic(
                    "XL6001",
                    f"the arguments are {tree}, and the function was lowered for {self.tree_in}",
                )
            )
        return list(leaves)

    def inputs(self, leaves: Sequence[Any], labels: Sequence[str]) -> list[Array]:
        """The model's inputs, from the leaves of the arguments; `labels` name each leaf in
        messages. Raises SourceError.
        """
        found = []
        for n, dtype, shape in self._taken:
            leaf = leaves[n]
            array = None if dtype is None else as_it_is(leaf, dtype, shape)
            found.append(inward(leaf, self.takes[n], labels[n]) if array is None else array)
        return found

    @cached_property
    def _taken(self) -> list[tuple[int, np.dtype[Any] | None, tuple[int, ...]]]:
        """Of each leaf that the model takes: its number, its shape, and its dtype if it is plain,
        and the shape known.
        """
        types = [(n, self.takes[n]) for n in self.kept]
        return [
            (n, np.dtype(t.dtype) if is_plain(t.dtype) and not _open(t) else None, tuple(t.shape))
            for n, t in types
        ]

    @cached_property
    def _special(self) -> list[tuple[int, Any]]:
        """The results that are converted, with their types."""
        return [(n, type) for n, type in enumerate(self.gives) if not is_plain(type.dtype)]

    def labels(self, names: Sequence[str]) -> list[str]:
        """The name of each leaf of the arguments for messages, given the names of the positional
        parameters: `x`, `params['w'][0]`.
        """
        import jax

        paths = jax.tree_util.tree_flatten_with_path(
            jax.tree.unflatten(self.tree_in, range(len(self.takes)))
        )[0]
        return [_label(path, names) for path, _ in paths]

    def given(self) -> list[str]:
        """The name of each leaf of the results for messages: "" if there is only one."""
        import jax

        paths = jax.tree_util.tree_flatten_with_path(
            jax.tree.unflatten(self.tree_out, range(len(self.gives)))
        )[0]
        return [str(jax.tree_util.keystr(path)) for path, _ in paths]

    def results(self, arrays: Sequence[Array]) -> Any:
        """The function's results as a pytree, from the model's outputs."""
        found = list(arrays)
        for n, type in self._special:
            found[n] = outward(found[n], type)
        return self.tree_out.unflatten(found)


def _open(type: Any) -> bool:
    """Whether a size of a type is symbolic."""
    return any(not isinstance(size, int) for size in type.shape)


def _label(path: Sequence[Any], names: Sequence[str]) -> str:
    import jax

    (kind, first, *rest) = path
    if kind.idx:
        name = str(first.key)
    else:
        name = names[first.idx] if first.idx < len(names) else f"args[{first.idx}]"
    return name + str(jax.tree_util.keystr(tuple(rest)))


class StaticArguments(NamedTuple):
    """Arguments that an option of `jax.jit` names, by place (negative ones from the end) and by
    name.
    """

    numbers: tuple[int, ...]
    names: frozenset[str]

    def positions(self, count: int) -> list[int]:
        """The positions among `count` arguments."""
        return sorted({n + count if n < 0 else n for n in self.numbers if -count <= n < count})


def jitted(
    function: Callable[..., Any], options: Mapping[str, Any], places: Sequence[str]
) -> tuple[Any, StaticArguments]:
    """The function under `jax.jit` with these options, or unchanged if it is jitted already, and
    its static arguments.

    Static and donated arguments may be named by position or by name; `places` are the names of the
    positional parameters. Raises SourceError for options that JAX refuses.
    """
    jax = required()
    if hasattr(function, "lower") and not options:
        jit_info = getattr(function, "_jit_info", None)  # JAX offers no other access to it
        return function, StaticArguments(
            tuple(getattr(jit_info, "static_argnums", ())),
            frozenset(getattr(jit_info, "static_argnames", ())),
        )
    every = dict(options)
    for kind in ("static", "donate"):
        numbers, names = f"{kind}_argnums", f"{kind}_argnames"
        if kind == "static" or numbers in options or names in options:
            chosen = _both(_listed(options.get(numbers)), _listed(options.get(names)), places)
            every[numbers], every[names] = chosen.numbers, tuple(sorted(chosen.names))
    try:
        made = jax.jit(function, **every)
    except (TypeError, ValueError) as error:
        raise SourceError(
            Diagnostic("XL6007", f"jax.jit does not take these options: {error}")
        ) from None
    return made, StaticArguments(
        tuple(every["static_argnums"]), frozenset(every["static_argnames"])
    )


def _both(numbers: Sequence[int], names: Sequence[str], places: Sequence[str]) -> StaticArguments:
    """Arguments given by position or name, as both where they have both."""
    at = {n + len(places) if n < 0 else n for n in numbers} | {
        places.index(n) for n in names if n in places
    }
    return StaticArguments(
        tuple(sorted(at)), frozenset(names) | {places[n] for n in at if 0 <= n < len(places)}
    )


def _listed(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,) if isinstance(value, int | str) else tuple(value)


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


def required() -> Any:
    """JAX. Raises SourceError where it is not installed."""
    try:
        import jax
        import jax.export
    except ImportError:
        raise SourceError(
            Diagnostic("XL7213", "xlac.from_jax needs JAX", hint="pip install 'xlac[jax]'")
        ) from None
    return jax


def symbols_of(jax: Any, tree: Any) -> bool:
    """Whether the shape of any argument has a symbolic size."""
    shapes = [getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(tree)]
    return any(not isinstance(size, int) for shape in shapes for size in shape)


def _lowered(
    jax: Any, jitted: Any, args: Sequence[Any], named: Mapping[str, Any]
) -> LoweredFunction:
    lowered = jitted.lower(*args, **named)
    infos = jax.tree.leaves(lowered.args_info)
    known = lowered._lowering.compile_args.get("kept_var_idx")  # JAX offers no other access to it
    kept = tuple(range(len(infos))) if known is None else tuple(sorted(known))
    donated = frozenset(n for n, info in enumerate(infos) if info.donated)
    gives = tuple(jax.tree.leaves(lowered.out_info))
    return LoweredFunction(
        load(lowered.as_text()),
        lowered.in_tree,
        lowered.out_tree,
        tuple(infos),
        gives,
        kept,
        donated,
    )


def _exported(
    jax: Any, jitted: Any, args: Sequence[Any], named: Mapping[str, Any], symbolic: bool
) -> LoweredFunction:
    """Exports with symbolic sizes; the model's symbols keep JAX's names."""
    exported = jax.export.export(jitted)(*args, **named)
    kept = tuple(exported.module_kept_var_idx)
    dims: dict[str, Symbol] = {}
    for position, number in enumerate(kept):
        for axis, size in enumerate(exported.in_avals[number].shape):
            if not isinstance(size, int) and str(size).isidentifier():
                dims[f"arg{position}_{axis}"] = Symbol(str(size), min=1)
    model = load(exported.mlir_module(), dims=dims)
    return LoweredFunction(
        model,
        exported.in_tree,
        exported.out_tree,
        exported.in_avals,
        exported.out_avals,
        kept,
        frozenset(),
    )
