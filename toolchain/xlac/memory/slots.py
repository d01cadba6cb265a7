"""The slots of a program being written: temporaries, states, and names of loop counters."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.dims import Symbol
from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.memory.arena import ALIGN
from xlac.memory.constants import ConstantSlots
from xlac.memory.lifetimes import Lifetimes
from xlac.memory.places import Places
from xlac.ops.tensor.leaf import Param
from xlac_sdk.programs.program import Argument, Role, Slot
from xlac_sdk.source import Origin


class ProgramSlots:
    """A program's slots, the clock that says how long each lives, and its constants."""

    def __init__(self, weights: Mapping[str, Array], sizes: tuple[Symbol, ...] = ()) -> None:
        self.sizes = sizes
        self.constants = ConstantSlots(weights)
        self.lifetimes = Lifetimes()
        self.slots: list[Slot] = []
        self.counters = 0
        self.state_bytes = 0

    def states(self, graph: Graph, places: Places) -> dict[str, Argument]:
        """A slot in the state block for every state of the graph; by name."""
        kept: dict[str, Argument] = {}
        for node in dict.fromkeys((*graph.inputs, *graph.nodes())):
            if isinstance(node.op, Param) and node.op.kind == "state":
                kept[node.op.name] = places[node] = self.kept(
                    node.type, node.op.name, f"state{len(kept)}", node.origin
                )
        return kept

    def kept(self, type: Type, name: str, symbol: str, origin: Origin | None = None) -> Argument:
        """A slot in the state block."""
        slot = Slot(
            name, symbol, type.dtype, type.shape, Role.STATE, self.state_bytes, origin=origin
        )
        self.slots.append(slot)
        self.state_bytes += -(-slot.nbytes // ALIGN) * ALIGN
        return Argument(slot)

    def slot(
        self, role: Role, type: Type, name: str, symbol: str, origin: Origin | None = None
    ) -> Slot:
        """A slot without a place in memory yet."""
        slot = Slot(name, symbol, type.dtype, type.shape, role, origin=origin)
        self.slots.append(slot)
        return slot

    def temporary(
        self, type: Type, origin: Origin | None = None, is_value: bool = True
    ) -> Argument:
        """A temporary that is alive from now on: a value, or else scratch memory for computing the
        one at `origin`.
        """
        place = self.unwritten(type, origin, is_value)
        self.lifetimes.use(place.slot)
        return place

    def unwritten(
        self, type: Type, origin: Origin | None = None, is_value: bool = True
    ) -> Argument:
        """A temporary that is alive from its first use on."""
        name = origin.name if origin and is_value else ""
        slot = self.slot(Role.TEMPORARY, type, name, f"t{len(self.slots)}", origin)
        return Argument(slot)

    def counter(self) -> str:
        """A loop counter's name, distinct from all sizes."""
        taken = {symbol.name for symbol in self.sizes}
        self.counters += 1
        while f"step{self.counters}" in taken:
            self.counters += 1
        return f"step{self.counters}"
