"""Tables that are divided by rows, as of a large vocabulary: each rank reads and changes the rows
that it has. What it reads of the rows of others is zeros, so that a sum over ranks is the whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.graph import Node, apply, zeros
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.collective.exchanges import AllGather
from xlac.ops.collective.sums import AllReduce
from xlac.ops.cost import nbytes
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.index import along_vector, clamped_starts
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.scatter import Scatter
from xlac.spmd.cost import seconds
from xlac.spmd.mesh import AxisNames, Mesh, Sharding, part_size
from xlac.spmd.reshard import Local, Resharder
from xlac.spmd.run_time import Rates
from xlac_sdk.dtypes import DType


def own_rows(
    node: Node, op: Op, inputs: list[Node], rows: Mapping[int, AxisNames], resharder: Resharder
) -> Node:
    """The gather or scatter of one rank, by its operation and operands: `rows` says which axes of
    the table are divided, and among which axes of the mesh.
    """
    table, indices, *rest = inputs
    whole, vector = node.op, node.op.index_vector_dim  # type: ignore[attr-defined]
    if isinstance(whole, Gather):
        places, x = whole.start_index_map, node.inputs[0]
        lasts = [x.shape[axis] - whole.slice_sizes[axis] for axis in places]
    else:
        assert isinstance(whole, Scatter)
        places, lasts = whole.scatter_dims_to_operand_dims, []
    starts = clamped_starts(indices, vector, lasts)
    firsts = []
    for axis in places:
        none = apply("const", value=DType.I32.numpy.type(0))
        begins = resharder.start(rows[axis], table.shape[axis]) if axis in rows else none
        firsts.append(build.reshape(build.cast(begins, DType.I64), (1,)))
    line = build.concat(firsts) if len(firsts) > 1 else firsts[0]
    if vector == starts.type.rank:
        moved = build.sub(starts, build.spread(build.reshape(line, ()), starts.shape, ()))
    else:
        moved = build.sub(starts, build.spread(line, starts.shape, (vector,)))
    local = Node.of(op, table, moved, *rest, origin=node.origin)
    if not isinstance(whole, Gather):
        return local  # what is out of range is dropped
    sizes = [table.shape[axis] if axis in rows else 1 << 62 for axis in places]
    least = build.compare(moved, "ge", build.like(0, moved))
    here = apply("and", least, build.compare(moved, "lt", along_vector(moved, vector, sizes)))
    if vector < moved.type.rank:
        here = build.reduce(here, "and", (vector,))
    batch = tuple(a for a in range(local.type.rank) if a not in whole.offset_dims)
    return build.select(build.spread(here, local.shape, batch), local, zeros(local.type))


def dearer(node: Node, table: Local, axis: int, wanted: Sharding, mesh: Mesh, rates: Rates) -> bool:
    """Whether the sum of what ranks read of their rows takes longer than to gather the table."""
    names = table.sharding[axis]
    shape = tuple(
        part_size(size, mesh.parts(tuple(n for n in used if n not in names)))
        if isinstance(size, int)
        else size
        for size, used in zip(node.shape, wanted, strict=True)
    )
    read = Node.of(Param(name="read", type=node.type.with_shape(shape)))
    summed = Node.of(AllReduce(mesh.axes, names), read)
    gathered = Node.of(AllGather(mesh.axes, names, axis), table.node)
    link, device = rates.link, rates.device
    return seconds(summed, link) > seconds(gathered, link) + nbytes(gathered.type) / device.rate
