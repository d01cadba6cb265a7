"""The constant slots of a program: weights, folded values and prepacked weights, whose data are
made when first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from xlac.codegen.core.lowered_group import PackedConstant
from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.lazy_arrays import LazyArrays
from xlac.ir.op import Array
from xlac.ir.storage import LINE, give_back, on_a_line
from xlac.ops.tensor.leaf import Const, Param
from xlac_sdk.programs.program import Role, Slot
from xlac_sdk.support.mapping import forget

OFTEN = 8 << 20  # bytes of packings after which freed memory is returned to the system


class ConstantSlots:
    """Gives each constant one slot, however often it is used."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = weights
        self.arrays = LazyArrays()
        self.slots: list[Slot] = []
        self._known: dict[object, Slot] = {}
        self._packed_bytes = 0  # since memory was last given back

    def slot(self, node: Node) -> Slot:
        """The slot of a Const or a weight. Equal weights by name, and equal constants, share
        one.
        """
        op = node.op
        assert isinstance(op, Const | Param)
        key: object = op.name if isinstance(op, Param) else (node.type, op.value.tobytes())
        if key not in self._known:
            slot = Slot(
                node.name,
                f"c{len(self.slots)}",
                node.type.dtype,
                static(node.shape),
                Role.CONSTANT,
                origin=node.origin,
            )
            self._add(key, slot, lambda: self.data(node))
        return self._known[key]

    def packed(self, packed: PackedConstant) -> Slot:
        """The slot of a constant computed from others. Equal packings of equal sources share
        one.
        """
        key = (
            packed.key,
            packed.dtype,
            packed.size,
            tuple(self._identity(s) for s in packed.sources),
        )
        if key not in self._known:
            name = f"{packed.sources[0].name}.packed" if packed.sources else "packed"
            slot = Slot(name, f"c{len(self.slots)}", packed.dtype, (packed.size,), Role.CONSTANT)
            self._add(key, slot, lambda: self._made(packed))
        return self._known[key]

    def _made(self, packed: PackedConstant) -> Array:
        """Packs the data of a constant. Its sources are not kept in memory."""
        sources = [self.data(node) for node in packed.sources]
        result = _flat(packed.make(*sources), packed)
        for source in sources:
            if not np.may_share_memory(source, result):
                forget(source)
        self._packed_bytes += result.nbytes
        if self._packed_bytes >= OFTEN:
            self._packed_bytes = 0
            give_back()
        return result

    def data(self, node: Node) -> Array:
        """The array of a Const or a weight."""
        op = node.op
        assert isinstance(op, Const | Param)
        return op.value if isinstance(op, Const) else self.weights[op.name]

    def _identity(self, node: Node) -> object:
        op = node.op
        return (
            op.name
            if isinstance(op, Param)
            else (node.type, op.value.tobytes())
            if isinstance(op, Const)
            else node
        )

    def _add(self, key: object, slot: Slot, make: Callable[[], Array]) -> None:
        self._known[key] = slot
        self.slots.append(slot)
        self.arrays.add(slot.symbol, make)


def _flat(array: Array, packed: PackedConstant) -> Array:
    """The elements of a packing, beginning on a cache line."""
    flat = np.ascontiguousarray(array, packed.dtype.numpy).reshape(-1)
    assert flat.size == packed.size, (
        f"packing {packed.key} gave {flat.size} elements, not {packed.size}"
    )
    if flat.ctypes.data % LINE == 0:
        return flat
    placed = on_a_line(flat.size, flat.dtype)
    placed[:] = flat
    return placed
