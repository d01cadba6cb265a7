"""Which operations an importer makes: each says so in its file `produced.py`.

`xlac ops --coverage` reads these. Where graphs are verified (`--verify-each`), an import that makes
any other operation fails; tests import models that make every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlac.ir.graph import Graph
from xlac.settings import settings

OF_USERS: set[str] = set()
"""What operations that users registered (`xlac.register_op`) were made of so far: any door may make
it.
"""


def verified(graph: Graph, declared: frozenset[str], importer: str) -> Graph:
    """The graph that an importer made. Raises AssertionError where graphs are verified and it has
    an operation that is not `declared`.
    """
    if settings().verify_each:
        strange = produced(graph) - declared - OF_USERS
        assert not strange, f"{importer}: produced.py lacks {', '.join(sorted(strange))}"
    return graph


def produced(graph: Graph) -> set[str]:
    """The mnemonics of a graph's operations, those in the bodies inside it too."""
    return set(_mnemonics(graph))


def _mnemonics(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        yield node.op.mnemonic
        for body in node.op.bodies():
            yield from _mnemonics(body)
