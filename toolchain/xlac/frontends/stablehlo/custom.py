"""Builders for targets of `custom_call`.

Users can register more, by a target and a builder:

    from xlac.frontends.stablehlo import CUSTOM_CALLS

    CUSTOM_CALLS["my.scale"] = lambda site: build.mul(site.number(0), 2.0)
"""

from __future__ import annotations

from math import lcm

from xlac.frontends.known import DataDependent, NeedsValue
from xlac.frontends.stablehlo.host_calls import python_callback
from xlac.frontends.stablehlo.scope import AssertedRange
from xlac.frontends.stablehlo.shardy import constrained
from xlac.frontends.stablehlo.site import Builder, Built, OperationSite
from xlac.ir.dims import UNBOUNDED, Sym, symbols
from xlac.ir.graph import Node
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
    if isinstance(node.op, Compare):
        note_range(site, node)
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
    return [] if holds else site.fail(told(site))


def note_range(site: OperationSite, node: Node) -> None:
    """Notes where a comparison asserts more of a single symbol than is known of it."""
    first, second = node.inputs
    direction = node.op.direction  # type: ignore[attr-defined]
    known = site.importer.known
    divided = direction == "eq" and first.op.mnemonic == "rem"
    try:
        (size,) = known.dims(first.inputs[0] if divided else first)
        (number,) = known.dims(first.inputs[1] if divided else second)
        if divided and known.dims(second) != (0,):
            return
    except (NeedsValue, DataDependent, ValueError):
        return
    if isinstance(size, int) and not divided:
        size, number, direction = number, size, MIRRORED[direction]
    if not isinstance(size, Sym) or not isinstance(number, int) or len(symbols(size)) != 1:
        return
    (symbol,) = symbols(size)
    if size != Sym((((symbol,), 1),)):
        return
    low, high, by = symbol.min, symbol.max, symbol.multiple_of
    if divided:
        by = lcm(by, number) if 0 < number <= UNBOUNDED else by
    elif direction in ("ge", "gt"):
        low = max(low, number + (direction == "gt"))
    elif direction in ("le", "lt"):
        high = min(high, number - (direction == "lt"))
    if (low, high, by) != (symbol.min, symbol.max, symbol.multiple_of):
        site.importer.asserted.append(AssertedRange(symbol.name, low, high, by))


MIRRORED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq", "ne": "ne"}


def told(site: OperationSite) -> str:
    """The message of an assertion that fails, with the numbers that it shows as {0}, {1} and so
    on.
    """
    message = site.word("error_message", "an assertion on sizes fails")
    for number in range(1, len(site.operands)):
        try:
            value: object = site.importer.known.dims(site.real(number).node)[0]
        except (NeedsValue, DataDependent, IndexError):
            continue
        message = message.replace(f"{{{number - 1}}}", str(value))
    return message


CUSTOM_CALLS: dict[str, Builder] = dict.fromkeys(
    (
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
CUSTOM_CALLS["Sharding"] = constrained
CUSTOM_CALLS["shape_assertion"] = shape_assertion

CUSTOM_CALLS |= dict.fromkeys(
    (
        "xla_ffi_python_cpu_callback",
        "xla_ffi_partitioned_python_cpu_callback",
        "xla_python_cpu_callback",
    ),
    python_callback,
)
