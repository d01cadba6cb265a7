"""Operations with sizes as operands, which must follow from constants and from the sizes
of inputs.
"""

from __future__ import annotations

from xlac.frontends.known import DataDependent, NeedsValue
from xlac.frontends.stablehlo.ops.contraction import convolved, layout
from xlac.frontends.stablehlo.ops.creation import counted
from xlac.frontends.stablehlo.ops.indexing import gathered
from xlac.frontends.stablehlo.ops.views import broadcast, moved, padded
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.dynamic_slice import DynSlice
from xlac.ops.tensor.leaf import Const
from xlac_sdk.dtypes import DType


def known(site: OperationSite, number: int) -> tuple[Dim, ...]:
    """The sizes that an operand holds. Raises SourceError if they are data-dependent."""
    node = site.real(number).node
    if isinstance(node.op, Const):
        return tuple(map(int, node.op.value.reshape(-1)))
    try:
        return site.importer.known.dims(node)
    except NeedsValue as error:
        site.fail(
            f"a size depends on the value of {error}", "fix it: params={name: value}", code="XL7212"
        )
    except DataDependent as error:
        site.fail(f"a size depends on data: {error}", code="XL7212")


def fixed(site: OperationSite, number: int) -> tuple[int, ...]:
    """Integers from an operand that must be static."""
    dims = known(site, number)
    if not all(isinstance(n, int) for n in dims):
        site.fail(f"needs numbers, got {list(dims)}", code="XL7212")
    return tuple(n for n in dims if isinstance(n, int))


@operation("get_dimension_size")
def get_dimension_size(site: OperationSite) -> Built:
    """A size as i32: a constant, or computed at run time if symbolic."""
    x = site.tensor(0)
    axis = site.axis("dimension", len(x.shape))
    size = x.shape[axis]
    if isinstance(size, int):
        return build.constant(size, DType.I32)
    return Node.of(DimSize(axis), x.parts[0])


@operation("set_dimension_size")
def set_dimension_size(site: OperationSite) -> Built:
    """The first elements of an axis; elements that the axis gains are undefined, and 0 here."""
    x = site.tensor(0)
    axis = site.axis("dimension", len(x.shape))
    (size,) = known(site, 1)
    have = x.shape[axis]
    if isinstance(size, int) and isinstance(have, int) and size > have:
        more = [size - have if a == axis else 0 for a in range(len(x.shape))]
        return moved(x, lambda part: build.pad(part, 0, [0] * len(more), more))
    return moved(x, lambda part: build.cut(part, axis, 0, size))


@operation("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(site: OperationSite) -> Built:
    """broadcast_in_dim to a shape that is known at import, or symbolic."""
    shape = known(site, 1)
    return broadcast(site, site.tensor(0), shape, site.axes("broadcast_dimensions", len(shape)))


@operation("dynamic_reshape")
def dynamic_reshape(site: OperationSite) -> Built:
    """reshape to a shape that is known at import, or symbolic."""
    shape = known(site, 1)
    return moved(site.tensor(0), lambda part: build.reshape(part, shape))


@operation("dynamic_iota")
def dynamic_iota(site: OperationSite) -> Built:
    """iota of a shape that is known at import, or symbolic."""
    return counted(site, known(site, 0))


@operation("dynamic_pad")
def dynamic_pad(site: OperationSite) -> Built:
    """pad with amounts that are known at import."""
    return padded(site, known(site, 2), known(site, 3), fixed(site, 4))


@operation("real_dynamic_slice")
def real_dynamic_slice(site: OperationSite) -> Built:
    """real_dynamic_slice. Starts may be data-dependent if the result's shape is static and the
    steps are 1.
    """
    x = site.tensor(0)
    steps = fixed(site, 3)
    try:
        starts, limits = (
            site.importer.known.dims(site.real(1).node),
            site.importer.known.dims(site.real(2).node),
        )
    except (NeedsValue, DataDependent):
        if set(steps) - {1}:
            site.fail("a start or a limit depends on data, and a step is not 1", code="XL7212")
        first = site.real(1).node
        sizes = reach(site, first, site.real(2).node)
        at = [build.reshape(build.cut(first, 0, n, n + 1), ()) for n in range(len(sizes))]
        return moved(x, lambda part: Node.of(DynSlice(sizes), part, *at))
    return moved(x, lambda part: build.slice_(part, starts, limits, steps))


def reach(site: OperationSite, first: Node, last: Node) -> Shape:
    """The sizes of a slice whose start depends on data: those that are added to its start, or those
    of its type.
    """
    if last.op.mnemonic == "add" and first in last.inputs:
        (added,) = (n for n in last.inputs if n is not first)
        try:
            return site.importer.known.dims(added)
        except (NeedsValue, DataDependent):
            pass
    return site.sizes


@operation("dynamic_gather")
def dynamic_gather(site: OperationSite) -> Built:
    """gather with slice sizes that are known at import."""
    return gathered(site, known(site, 2))


@operation("dynamic_conv")
def dynamic_conv(site: OperationSite) -> Built:
    """convolution with padding that is known at import."""
    axes, padding = layout(site), fixed(site, 2)
    return convolved(site, axes, padding[0::2], padding[1::2])
