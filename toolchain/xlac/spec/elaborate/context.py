"""Shared by all parts of elaboration: the report, the user's blocks and operations, and the learned
tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xlac.ir.dims import UNBOUNDED, bounds, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.types import RANK, Type
from xlac.spec.elaborate.scope import Frame, Scope, Value
from xlac.spec.report import Fault, Place, Report
from xlac.spec.schema import schema
from xlac.spec.schema.document import SpecEntry
from xlac_sdk.source import Origin, Span

if TYPE_CHECKING:
    from xlac.spec.elaborate.evaluate import Evaluator
    from xlac.spec.kernels.files import KernelText
    from xlac.spec.weights.stored import Stored

MAX_NODES = 200_000
MAX_ELEMENTS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Handlers:
    """The functions that elaborate each kind of entry, by its schema class; and the user's own
    operations, as an entry, as a call, and as an operation's body.

    They need each other, so they are passed around instead of imported: `handlers.py` has the
    table.
    """

    entries: Mapping[type, Callable[[Elaboration, Scope, Any, str, Place], Value]]
    custom_node: Callable[[Elaboration, Scope, str, schema.OpNode, str, Place], Value]
    custom_call: Callable[[Evaluator, ast.Call, SpecEntry[schema.OpSpec]], Value]
    function: Callable[[Elaboration, Scope, schema.Function, str, Place], Graph]


@dataclass
class Elaboration:
    """The state of one elaboration."""

    report: Report
    blocks: dict[str, SpecEntry[schema.BlockSpec]]
    custom: dict[str, SpecEntry[schema.OpSpec]]
    root: Frame
    stored: Stored
    handlers: Handlers
    # of custom ops, by name and target
    kernels: Mapping[str, Mapping[str, KernelText]] = field(default_factory=dict)
    weights: dict[str, Node] = field(default_factory=dict)
    # blocks and custom ops being used, the innermost last
    stack: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)  # blocks and custom ops that were used
    count: int = 0

    def weight(self, scope: Scope, name: str, type: Type, span: Span) -> Node:
        """A learned tensor, made in the outermost frame and captured by the scope's."""
        from xlac.ops.tensor.leaf import Param

        if name in self.weights:
            raise Fault(
                "XL1021",
                f"two operations learn a tensor called {name!r}",
                span,
                "give each of them a node of its own",
            )
        if not scope.frame.within(self.root):
            raise Fault(
                "XL2012",
                f"a body that sees its inputs only learns nothing, and this learns {name!r}",
                span,
                "hand it the tensor: {op: weight, type: …}",
            )
        node = Node.of(Param(name=name, type=type, kind="weight"), origin=Origin(name, span))
        self.weights[name] = node
        return scope.frame.bring(node, self.root)

    def stamp(self, new: Iterable[Node], origin: Origin) -> None:
        """Sets the origin of new nodes, checks their sizes and counts them.

        They are new, so that writing to them is safe.
        """
        stack, count = list(new), 0
        while stack:
            node = stack.pop()
            if node.origin is not None:
                continue
            object.__setattr__(node, "origin", origin)
            count += 1
            for type in node.results:
                check_size(type, origin.span)
            stack += node.inputs
        self.add(count, origin.span)

    def add(self, count: int, span: Span | None) -> None:
        """Counts operations. Raises Fault for too many."""
        self.count += count
        if self.count > MAX_NODES:
            raise Fault("XL4018", f"the model has more than {MAX_NODES:,} operations", span)


def check_size(type: Type, span: Span | None) -> None:
    """Raises Fault for a tensor whose elements or bytes exceed 63 bits."""
    if type.rank > RANK:
        raise Fault(
            "XL4019", f"a tensor of rank {type.rank}; at most {RANK} axes are supported", span
        )
    if (most := most_elements(type)) * type.dtype.nbytes > MAX_ELEMENTS:
        raise Fault(
            "XL4019", f"{type} has {most:.3g} elements: more bytes than 63 bits count", span
        )


@lru_cache(maxsize=65536)
def most_elements(type: Type) -> int:
    """The most elements that a tensor can have; 0 where a size has no bound."""
    size = type.size
    if isinstance(size, int):
        return size
    return bounds(size)[1] if all(s.max < UNBOUNDED for s in symbols(size)) else 0
