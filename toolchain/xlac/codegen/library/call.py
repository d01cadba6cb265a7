"""Shared by all calls of libraries: the library for a type, and the call with its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from xlac.codegen.core import epilogue
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import (
    LibraryCall,
    LoweredGroup,
    PackedConstant,
    Scratch,
    Value,
)
from xlac.codegen.core.operands import OperandView
from xlac.codegen.library.refused import LibraryRefused
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.attention import Attentions
from xlac_sdk.libraries.library import Problem
from xlac_sdk.libraries.product import Products

Facts = TypeVar("Facts", Products, Attentions)


def of_type(anchor: Node, libraries: Iterable[Facts], what: str) -> Facts:
    """The library entry for operands of a node's type. Raises LibraryRefused if there is none."""
    types = list(dict.fromkeys(node.type.dtype for node in anchor.inputs[:2]))
    able = next((library for library in libraries if types == [library.operands]), None)
    if able is None:
        name = next(iter(libraries)).library
        raise LibraryRefused(f"{name} is not used for {what} of {' and '.join(map(str, types))}")
    return able


def epilogue_of(group: Group, library: str) -> Epilogue:
    """The epilogue of a group, which must have one output. Raises LibraryRefused if the library
    cannot compute it.
    """
    after = epilogue.of(group, group.anchor)
    if after is None or len(group.outputs) > 1:
        raise LibraryRefused(
            f"{library} has one result, and its epilogue cannot compute the others"
        )
    return after


def call(
    after: Epilogue,
    problem: Mapping[str, Problem],
    views: Iterable[OperandView | None],
    library: str,
    workspace: int,
    whole: Iterable[OperandView | None],
) -> LoweredGroup:
    """The call that computes a group: `problem` has its name; of the `views`, those of `whole` are
    read before the result is written.
    """
    group = after.group
    values: list[Value] = [view.value for view in views if view is not None]
    arguments = (*values, *group.outputs, Scratch(DType.U8, workspace, "workspace"))
    (name,) = problem
    calling = LibraryCall(name, arguments, tuple(map(_shape, arguments)), problem, cost.work(group))
    read = {view.value for view in whole if view is not None and isinstance(view.value, Node)}
    return LoweredGroup(
        (), epilogue.in_place(after, read), call=calling, note=f"one call of {library}"
    )


def _shape(value: Value) -> Shape:
    match value:
        case Node():
            return value.type.shape
        case PackedConstant() | Scratch():
            return (value.size,)
