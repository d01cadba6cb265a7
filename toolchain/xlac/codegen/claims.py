"""Composites that lowerings implement whole, where one kernel is faster than those of the
expansion.

`TAKEN` says, for each composite, the kind of group of which it becomes the anchor, and for which
nodes and targets. The pass that expands composites uses it, and fusion; `lower.py` finds the
lowering by the kind, as for any other group.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xlac.fusion.group import Kind
from xlac.ir.graph import Graph, Node
from xlac.ops import OPS
from xlac.ops.collective.group import Collective
from xlac.ops.collective.sums import AllReduce, ReduceScatter
from xlac.ops.control.custom_op import CustomOp
from xlac.ops.control.effect import python_calls
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target

Takes = Callable[[Node, Target], bool]


ATTENTION = {
    "cpu": "xlac.codegen.cpu.attention.choose",
    "gpu": "xlac.codegen.gpu.attention.attention",
}
"""The module whose `takes` decides, imported when first needed."""


ATTENTION_GRADIENT = "xlac.codegen.cpu.attention.gradient_choice"


def attention(node: Node, target: Target) -> bool:
    """Whether a GPU kernel supports the attention, or on a CPU its scores would not stay in the
    caches.
    """
    module: Any = import_module(ATTENTION[target.device])
    return bool(module.takes(node, target))


def attention_derivative(node: Node, target: Target) -> bool:
    """Whether the attention itself is one kernel on a CPU; its derivative then recomputes the
    weights tile by tile.
    """
    if target.device != "cpu":
        return False
    module: Any = import_module(ATTENTION_GRADIENT)
    return bool(module.takes(node, target))


WINDOW_CHOICE = "xlac.codegen.cpu.window_choice.axes"


def window_choice(node: Node, target: Target) -> bool:
    """Whether a CPU kernel walks the windows in order."""
    if target.device != "cpu":
        return False
    module: Any = import_module(WINDOW_CHOICE)
    return bool(module.takes(node, target))


MATRIX = "xlac.codegen.cpu.matrix.takes"


def matrix(node: Node, target: Target) -> bool:
    """Whether a CPU kernel factors the matrix, or solves the system, without dividing it."""
    if target.device != "cpu":
        return False
    module: Any = import_module(MATRIX)
    return bool(module.takes(node, target))


def custom_op(node: Node, target: Target) -> bool:
    """Whether there is a hand-written kernel for the target, and such kernels are permitted:
    otherwise the target has no languages.
    """
    op = node.op
    assert isinstance(op, CustomOp)
    kernel = op.kernel(target.name)
    return kernel is not None and kernel.language in target.languages


def collective(node: Node, target: Target) -> bool:
    """Whether it is a step of programs of this target as it is, among more than one rank."""
    op = node.op
    assert isinstance(op, Collective)
    if isinstance(op, AllReduce | ReduceScatter):
        how = op.combine if isinstance(op, AllReduce) else "add"
        if (how, node.inputs[0].type.dtype) in target.uncombined:
            return False
    return target.collectives and op.is_step(*(i.type for i in node.inputs))


TAKEN: dict[str, tuple[Kind, Takes]] = {
    "attention": (Kind.ATTENTION, attention),
    "attention_sums": (Kind.ATTENTION, attention_derivative),
    "attention_gradient": (Kind.ATTENTION, attention_derivative),
    "custom_op": (Kind.CUSTOM, custom_op),
    "lu": (Kind.MATRIX, matrix),
    "cholesky": (Kind.MATRIX, matrix),
    "triangular_solve": (Kind.MATRIX, matrix),
    "select_and_scatter": (Kind.SCATTER, window_choice),
    **{
        name: (Kind.COLLECTIVE, collective)
        for name, op in OPS.items()
        if issubclass(op, Collective)
    },
}
"""By mnemonic."""


def kind_taken(node: Node, target: Target) -> Kind | None:
    """The kind of group that a composite becomes when it is lowered whole, or None if it is to be
    expanded.
    """
    kind, takes = TAKEN.get(node.op.mnemonic, (None, None))
    return kind if takes is not None and takes(node, target) else None


def is_kept(node: Node, target: Target) -> bool:
    """Whether a composite is not expanded: the target claims it, or a lowering
    implements it whole.
    """
    return node.op.mnemonic in target.claims or kind_taken(node, target) is not None


def check_host_calls(graph: Graph, target: Target) -> None:
    """Raises UnsupportedError for the calls of Python functions, in bodies too, on a target whose
    programs run without Python.
    """
    if target.host_calls:
        return
    problem = f"a program of target {target.name} calls no Python functions"
    hint = "targets cpu and reference do, in the process that compiles; "
    hint += "from_jax(…, drop_callbacks=True) leaves out those without results"
    found = [
        Diagnostic("XL7217", problem, node.origin.span if node.origin else None, hint)
        for node in python_calls(graph)
    ]
    if found:
        raise UnsupportedError(*found)
