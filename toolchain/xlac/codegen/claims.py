"""Composites that lowerings take whole: one kernel does better than those of the definition.

`TAKEN` says for a composite which kind of group it founds, and for which nodes and targets. The
pass that expands composites asks here, and fusion; `lower.py` finds the lowering by the kind, as
for any other group.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac_sdk.target import Target

Takes = Callable[[Node, Target], bool]


ATTENTION = {
    "cpu": "xlac.codegen.cpu.attention_choice",
    "gpu": "xlac.codegen.gpu.attention.attention",
}
"""The module whose `takes` says it, imported when a device asks."""


def attention(node: Node, target: Target) -> bool:
    """Where a GPU's threads share the queries, or the scores would not stay in a CPU's caches."""
    module: Any = import_module(ATTENTION[target.device])
    return bool(module.takes(node, target))


WINDOW_CHOICE = "xlac.codegen.cpu.window_choice.axes"


def window_choice(node: Node, target: Target) -> bool:
    """Where a CPU goes through the windows in order."""
    if target.device != "cpu":
        return False
    module: Any = import_module(WINDOW_CHOICE)
    return bool(module.takes(node, target))


TAKEN: dict[str, tuple[Kind, Takes]] = {
    "attention": (Kind.ATTENTION, attention),
    "select_and_scatter": (Kind.SCATTER, window_choice),
}
"""By mnemonic."""


def kind_taken(node: Node, target: Target) -> Kind | None:
    """The kind of group that a composite founds when it is taken whole, or None where it is to be
    expanded.
    """
    kind, takes = TAKEN.get(node.op.mnemonic, (None, None))
    return kind if takes is not None and takes(node, target) else None


def is_kept(node: Node, target: Target) -> bool:
    """Whether a composite stays what it is: the target claims it, or a lowering takes it whole."""
    return node.op.mnemonic in target.claims or kind_taken(node, target) is not None
