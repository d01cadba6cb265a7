"""How a loop, a branch or a call is divided: as the axes of its values permit without collectives
inside, or with collectives inside, where that takes less time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlac.ir.graph import Graph, Node, walk
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.collective.shard import Shard
from xlac.spmd.bodies import Divide, Hints, divided_control, results_of
from xlac.spmd.mesh import Sharding
from xlac.spmd.reshard import Local, Resharder
from xlac.spmd.run_time import Rates, seconds_of

TRIES = 12  # operands that are gathered before a loop instead, one after the other


@dataclass(frozen=True, slots=True, eq=False)
class LoopDivider:
    """Divides the loops of one graph. `search`: which operands are better gathered before is
    tried.
    """

    resharder: Resharder
    rates: Rates
    body: Divide
    search: bool

    def divided(
        self,
        node: Node,
        operands: Sequence[Local],
        plain: Hints,
        wanted: Sequence[Sharding],
        plainly: Callable[[], Node],
    ) -> list[Local] | None:
        """The results of a loop with collectives inside; None where it is better as `plainly` makes
        it, with operands divided as `plain` says. `wanted` says how the results are used.
        """
        moved = [n for n, value in enumerate(operands) if value.sharding != plain[n]]
        said = any(map(says, node.op.bodies()))
        if not said and not moved:
            return None
        pairs = zip(operands, plain, strict=True)
        hints = tuple(_joined(value.sharding, also) for value, also in pairs)
        made = self._made(node, operands, hints, wanted)
        if made is None:
            return None
        best, time = made
        for number in moved[:TRIES] if self.search and not said else ():
            other = (*hints[:number], plain[number], *hints[number + 1 :])
            trial = self._made(node, operands, other, wanted)
            if trial is not None and trial[1] < time:
                (best, time), hints = trial, other
        if not said and self._seconds(operands, [plainly()]) <= time:
            return None
        return best

    def _made(
        self, node: Node, operands: Sequence[Local], hints: Hints, wanted: Sequence[Sharding]
    ) -> tuple[list[Local], float] | None:
        """The results, where operands are divided so, and the time of all that is new."""
        found = divided_control(node, hints, tuple(wanted), self.body)
        if found is None:
            return None
        self.resharder.reasons.update(found.reasons)
        results = results_of(found, node, operands, wanted, self.resharder)
        return results, self._seconds(operands, [value.node for value in results])

    def _seconds(self, operands: Sequence[Local], made: Sequence[Node]) -> float:
        """The time of what was made of the operands."""
        there = {value.node for value in operands}
        return sum(seconds_of(node, self.rates) for node in walk(made, there))


def says(body: Graph) -> bool:
    """Whether a body says how values are divided."""
    return any(
        (isinstance(node.op, Shard) and any(node.op.axes))
        or isinstance(node.op, ManualComputation)
        or any(map(says, node.op.bodies()))
        for node in body.nodes()
    )


def _joined(one: Sharding, other: Sharding) -> Sharding:
    """How a value is divided, and besides, where the two agree."""
    used = {name for names in one for name in names}
    return tuple(
        names or (() if used & set(more) else more) for names, more in zip(one, other, strict=True)
    )
