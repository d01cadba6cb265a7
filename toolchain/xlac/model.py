"""A model ready to compile: a graph and where its weights are. Every front door ends in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xlac.ir.dims import Symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops.leaf import asked


@dataclass(frozen=True, eq=False)
class Model:
    """A named graph and the data of its weights.

    `weights` maps the name of every `param` node of kind "weight" to its array, memory-mapped where it
    comes from a file and made on first use where it is seeded. `dims` are the symbolic sizes still open.
    """

    graph: Graph
    weights: Mapping[str, Array]
    dims: Mapping[str, Symbol] = field(default_factory=dict)
    doc: str = ""
    precision: str = "default"  # "default": rounding is kept; "fast": rules may reassociate and skip half rounding
    state: Mapping[str, str] = field(default_factory=dict)  # `param` of kind "state" -> the output with its next value
    kernels: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)  # custom op -> target -> hand-written file

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What the caller supplies; state, which is an input of the graph too, is not."""
        return asked(self.graph)

    @property
    def name(self) -> str:
        return self.graph.name
