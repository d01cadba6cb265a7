"""Which operations an importer can make: each importer declares them in its `produced.py`.

`xlac ops --coverage` reads these declarations. Where graphs are verified (`--verify-each`), it is
an error to make any other operation; tests import models that make all declared ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlac.ir.graph import Graph
from xlac.settings import settings

OF_USERS: set[str] = set()
"""Operations in the reference graphs of operations that users registered (`xlac.register_op`),
which every importer may make.
"""


def verified(graph: Graph, declared: frozenset[str], importer: str) -> Graph:
    """The graph made by an importer. Raises AssertionError where graphs are verified and it has an
    operation that is not `declared`.
    """
    if settings().verify_each:
        strange = produced(graph) - declared - OF_USERS
        assert not strange, f"{importer}: produced.py lacks {', '.join(sorted(strange))}"
    return graph


def produced(graph: Graph) -> set[str]:
    """The mnemonics of a graph's operations, including those in nested bodies."""
    return set(_mnemonics(graph))


def _mnemonics(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        yield node.op.mnemonic
        for body in node.op.bodies():
            yield from _mnemonics(body)
