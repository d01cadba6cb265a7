"""The record of a checked graph: the results of its checks, joined into one row, i64[4].

The row is the number of the first check that failed, from 1 (0: none), the position, the value
there, and the iteration of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.passes.checks.conditions import Condition, both
from xlac.passes.checks.nodes import (
    WIDE,
    as_row,
    element_at,
    first_failure,
    first_of,
    first_position,
    has,
    no_position,
    zero,
)
from xlac.support.failures import Check

ROWS_PER_CONCAT = 16
CONDITIONS_PER_REDUCTION = 100


class Records:
    """Collects the failures of one graph, in the order of its nodes.

    Every check is added to `checks`; its index gives its number. `record`, where given, holds
    earlier failures: in a loop, those of earlier iterations.
    """

    def __init__(self, checks: list[Check], record: Node | None = None) -> None:
        self.checks = checks
        self.rows: list[Node] = [] if record is None else [as_row(record)]
        self.given = len(self.rows)
        # number of the check (0: it did not fail), position, value there
        self.failures: list[tuple[Node, Node, Node | None]] = []
        # pointwise conditions by shape; those of one shape share a reduction
        self.pointwise: dict[Shape, list[tuple[Condition, Node]]] = {}
        self.firsts: dict[tuple[Node, str], Node] = {}

    def first(self, node: Node, kind: str) -> Node:
        """The first position of NaN or infinity in a value."""
        key = (node, kind)
        if key not in self.firsts:
            self.firsts[key] = first_position(has(node, kind))
        return self.firsts[key]

    # ---- checks ------------------------------------------------------------------------------

    def add(self, condition: Condition, node: Node, first: Node | None = None) -> None:
        """Adds a check of a node; `first` is the first position at fault, where it is known
        already.
        """
        if first is None:
            first = first_position(condition.bad)
        value = condition.value
        shown = None if value is None else element_at(value, first)
        dtype = None if value is None else value.type.dtype
        self.checks.append(
            Check.of(condition.kind, condition.message, node.origin, condition.bad.shape, dtype)
        )
        number = build.constant(len(self.checks), WIDE)
        fine = build.compare(first, "eq", no_position(condition.bad))
        self._add_failure(build.select(fine, zero(), number), build.cast(first, WIDE), shown)

    def add_pointwise(self, condition: Condition, given: Sequence[Node], node: Node) -> None:
        """Adds a check for elements of a kind where the corresponding elements of the operands
        `given` are not of that kind. Checks of one shape share a reduction.
        """
        bad = condition.bad
        for operand in given:
            fine = build.compare(has(operand, condition.kind), "eq", False)
            bad = both(bad, build.broadcast_to(fine, node.shape))
        group = self.pointwise.setdefault(node.shape, [])
        group.append((condition._replace(bad=bad), node))
        if len(group) == CONDITIONS_PER_REDUCTION:
            self.reduce_pointwise()

    def reduce_pointwise(self) -> None:
        """Reduces the pointwise conditions of each shape to the least pair (check, position)."""
        groups, self.pointwise = self.pointwise, {}
        for group in groups.values():
            before = len(self.checks)
            for condition, node in group:
                self.checks.append(
                    Check.of(
                        condition.kind, condition.message, node.origin, condition.bad.shape, None
                    )
                )
            code, position = first_of([condition.bad for condition, _ in group])
            fine = build.compare(code, "eq", len(group))
            self._add_failure(build.select(fine, zero(), build.add(code, before + 1)), position)

    def _add_failure(self, number: Node, position: Node, value: Node | None = None) -> None:
        self.failures.append((number, position, value))
        if len(self.failures) == ROWS_PER_CONCAT:
            self._join_failures()

    # ---- rows --------------------------------------------------------------------------------

    def _join_failures(self) -> None:
        """Makes rows (number, position, value, iteration) of the failures added since the last
        call.
        """
        if not self.failures:
            return
        zeros = build.constant(np.zeros(1, np.int64))
        wanted = [(number, position, value, None) for number, position, value in self.failures]
        columns = [
            build.concat([zeros if one is None else build.reshape(one, (1,)) for one in column])
            for column in zip(*wanted, strict=True)
        ]
        rows = (len(self.failures), 1)
        self.rows.append(build.concat([build.reshape(column, rows) for column in columns], 1))
        self.failures = []

    def add_record(self, record: Node) -> None:
        """Adds the record of a loop, a branch or a function."""
        self.reduce_pointwise()
        self._join_failures()
        self.rows.append(as_row(record))

    def result(self) -> Node | None:
        """The row of the first check that failed; None where there are no checks."""
        self.reduce_pointwise()
        self._join_failures()
        return None if len(self.rows) == self.given else first_failure(self.rows)
