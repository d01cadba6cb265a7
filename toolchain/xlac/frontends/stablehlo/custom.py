"""Builders for targets of `custom_call`.

Users can register more, by a target and a builder:

    from xlac.frontends.stablehlo import CUSTOM_CALLS

    CUSTOM_CALLS["my.scale"] = lambda site: build.mul(site.number(0), 2.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from xlac.frontends.known import DataDependent, NeedsValue
from xlac.frontends.stablehlo.site import Builder, Built, OperationSite
from xlac.frontends.stablehlo.text.syntax import TensorType
from xlac.frontends.stablehlo.values import Token
from xlac.ir.dims import Sym
from xlac.ops.scalar.comparison import Compare


def same(site: OperationSite) -> Built:
    """The operands unchanged: the call only annotates them."""
    return site.operands[: len(site.op.types)]


def shape_assertion(site: OperationSite) -> Built:
    """jax.export's assertions on sizes: an equation between symbolic sizes unifies them, a false
    one is an error.
    """
    node = site.real(0).node
    known = site.importer.known
    if isinstance(node.op, Compare) and node.op.direction == "eq":
        try:
            (first,), (second,) = (known.dims(side) for side in node.inputs)
        except (NeedsValue, DataDependent, ValueError):
            return []
        if first != second and (isinstance(first, Sym) or isinstance(second, Sym)):
            site.importer.agree([(first,), (second,)])
    try:
        holds = bool(known.array(node))
    except (NeedsValue, DataDependent):
        return []
    return [] if holds else site.fail(site.word("error_message", "an assertion on sizes fails"))


CUSTOM_CALLS: dict[str, Builder] = dict.fromkeys(
    (
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "MoveToHost",
        "MoveToDevice",
        "LayoutConstraint",
        "Pin",
        "Unpin",
        "mhlo.sharding_constraint",
        "ResizeBarrier",
    ),
    same,
)
CUSTOM_CALLS["shape_assertion"] = shape_assertion

_dropped: ContextVar[list[str] | None] = ContextVar("dropped", default=None)


@contextmanager
def dropping() -> Iterator[list[str]]:
    """In the block, calls of Python functions without results are dropped on import; the list gets
    a line for each.
    """
    dropped: list[str] = []
    token = _dropped.set(dropped)
    try:
        yield dropped
    finally:
        _dropped.reset(token)


def python_callback(site: OperationSite) -> Built:
    """A call of a Python function: dropped where that is permitted and it has no results."""
    dropped = _dropped.get()
    if any(isinstance(type, TensorType) for type in site.op.types):
        site.fail(
            "it calls a Python function for its results, and a program runs without Python",
            "compute the value before and pass it in, or write it with operations of JAX",
            code="XL7216",
        )
    if dropped is None:
        site.fail(
            "it calls a Python function, as jax.debug.print does, and a program runs without "
            "Python",
            "xlac.from_jax(…, drop_callbacks=True) leaves such calls out",
            code="XL7216",
        )
    dropped.append(str(site.importer.source.span(site.op.at)))
    return [Token() for _ in site.op.types]


CUSTOM_CALLS |= dict.fromkeys(
    (
        "xla_ffi_python_cpu_callback",
        "xla_ffi_partitioned_python_cpu_callback",
        "xla_python_cpu_callback",
    ),
    python_callback,
)
