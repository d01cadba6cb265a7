"""Builders for targets of `custom_call`.

Users can register more, by a target and a builder:

    from xlac.frontends.stablehlo import CUSTOM_CALLS

    CUSTOM_CALLS["my.scale"] = lambda site: build.mul(site.number(0), 2.0)
"""

from __future__ import annotations

from math import lcm

from xlac.frontends.known import DataDependent, NeedsValue
from xlac.frontends.stablehlo.host_calls import python_callback
from xlac.frontends.stablehlo.ranks.exported import ENTERS, FULL, LEAVES, PARTS
from xlac.frontends.stablehlo.scope import AssertedRange
from xlac.frontends.stablehlo.shardy import constrained
from xlac.frontends.stablehlo.site import Builder, Built, OperationSite
from xlac.ir.dims import Dim, Quotient, Sym, Symbol, symbols
from xlac.ir.graph import Node
from xlac.ops.scalar.comparison import Compare


def same(site: OperationSite) -> Built:
    """The operands unchanged: the call only annotates them."""
    return site.operands[: len(site.op.types)]


def changed_shape(site: OperationSite) -> Built:
    """The operands unchanged, where each device has the whole. Calls of a body between these are
    manual computations, which `ranks/exported.py` finds; what it has left is refused.
    """
    shapes = [x.shape for x in site.tensors()]
    if shapes != [type.shape for type in site.results()]:
        problem = "it divides values for a computation of each device that is not understood"
        site.fail(problem, "one call between such calls is, over all axes", code="XL7208")
    return site.operands


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
        linear = _linear(first - second)
        if _remainder_of(first - second) or (linear and abs(linear[0]) != 1):
            return []  # noted above
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
    try:
        (size,), (number,) = known.dims(first), known.dims(second)
    except (NeedsValue, DataDependent, ValueError):
        return
    asserted = size - number
    if len(found := symbols(asserted)) != 1:
        return
    (symbol,) = found
    low, high = _range(asserted, symbol, direction)
    by = symbol.multiple_of
    divided = _remainder_of(asserted) if direction == "eq" else None
    if divided is not None and divided.dividend == Sym((((symbol,), 1),)):
        by = lcm(by, divided.divisor)
    if (low, high, by) != (symbol.min, symbol.max, symbol.multiple_of):
        site.importer.asserted.append(AssertedRange(symbol.name, low, high, by))


def _remainder_of(size: Dim) -> Quotient | None:
    """The division whose remainder a size is; None for any other size."""
    for atoms, _ in size.parts if isinstance(size, Sym) else ():
        for atom in atoms:
            if isinstance(atom, Quotient):
                left = atom.dividend - Sym((((atom,), 1),)) * atom.divisor
                return atom if size in (left, left * -1) else None
    return None


def _linear(size: Dim) -> tuple[int, int] | None:
    """The a and b of a size that is `a * symbol + b`."""
    parts = dict(size.parts) if isinstance(size, Sym) else {}
    offset = parts.pop((), 0)
    if len(parts) != 1:
        return None
    ((atoms, factor),) = parts.items()
    return (factor, offset) if len(atoms) == 1 and isinstance(atoms[0], Symbol) else None


def _range(size: Dim, symbol: Symbol, direction: str) -> tuple[int, int]:
    """The values of a symbol for which `a * symbol + b` relates to 0 as the direction says; those
    that it has already where a size is another function of it.
    """
    low, high, linear = symbol.min, symbol.max, _linear(size)
    if linear is None or direction == "ne":
        return low, high
    factor, offset = linear
    if direction in ("gt", "lt"):
        offset += -1 if direction == "gt" else 1
    ends = [(factor, offset)] if direction in ("ge", "gt", "eq") else []
    if direction in ("le", "lt", "eq"):
        ends.append((-factor, -offset))
    for a, b in ends:  # a * symbol + b >= 0
        if a > 0:
            low = max(low, -(b // a))
        else:
            high = min(high, b // -a)
    return low, high


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
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
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
CUSTOM_CALLS |= dict.fromkeys((ENTERS, LEAVES, FULL, PARTS), changed_shape)
CUSTOM_CALLS["shape_assertion"] = shape_assertion

CUSTOM_CALLS |= dict.fromkeys(
    (
        "xla_ffi_python_cpu_callback",
        "xla_ffi_partitioned_python_cpu_callback",
        "xla_python_cpu_callback",
    ),
    python_callback,
)
