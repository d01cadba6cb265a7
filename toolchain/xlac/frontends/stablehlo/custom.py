"""Builders for targets of `custom_call`.

Users can register more, by a target and a builder:

    from xlac.frontends.stablehlo import CUSTOM_CALLS

    CUSTOM_CALLS["my.scale"] = lambda site: build.mul(site.number(0), 2.0)
"""

from __future__ import annotations

from xlac.frontends.known import DataDependent, NeedsValue
from xlac.frontends.stablehlo.site import Builder, Built, OperationSite
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
