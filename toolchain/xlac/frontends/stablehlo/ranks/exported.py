"""Manual computations as exported programs have them: a call of a body between custom calls, which
change the shapes of operands and results: two of Shardy, or one of GSPMD for each value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from xlac.frontends.stablehlo.text.syntax import (
    MlirFunction,
    MlirRegion,
    MlirSymbol,
    Module,
    Operation,
)

FULL, PARTS = "SPMDFullToShardShape", "SPMDShardToFullShape"
MANUAL = "{manual}"
ENTERS, LEAVES = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
BODY = "manual_computation_body"  # in the name of its function


def with_computations(module: Module) -> Module:
    """The module with operations `sdy.manual_computation` in place of such calls."""
    if not any(BODY in name for name in module.functions):
        return _of_gspmd(module)
    functions = {
        name: replace(function, body=_CallReader(module.functions, (name,)).region(function.body))
        for name, function in module.functions.items()
    }
    return replace(module, functions=functions)


@dataclass(frozen=True, slots=True)
class _CallReader:
    """Reads regions; `inside` names the functions around, none of which calls itself."""

    functions: Mapping[str, MlirFunction]
    inside: tuple[str, ...]

    def region(self, region: MlirRegion) -> MlirRegion:
        """A region with the operations, in regions inside of it too."""
        made = {plain(name): op for op in region.operations for name in op.results}
        operations: list[Operation] = []
        for op in region.operations:
            if target(op) == ENTERS or (op.results and self.body(op) is not None):
                continue
            call = made.get(plain(op.operands[0])) if op.operands else None
            if target(op) == LEAVES and call is not None and self.body(call) is not None:
                enters = made.get(plain(call.operands[0])) if call.operands else None
                op = self.computation(enters, call, op)
            else:
                op = replace(op, regions=[self.region(inner) for inner in op.regions])
            operations.append(op)
        return MlirRegion(region.arguments, operations, region.at)

    def body(self, op: Operation) -> MlirFunction | None:
        """The body that an operation calls, if it is such a call."""
        callee = op.attributes.get("callee") if op.name == "call" else None
        name = callee.name if isinstance(callee, MlirSymbol) else ""
        known = BODY in name and name not in self.inside
        return self.functions.get(name) if known else None

    def computation(
        self, enters: Operation | None, call: Operation, leaves: Operation
    ) -> Operation:
        """The operation of a call; `enters` is missing where it has no operands."""
        function = self.body(call)
        assert function is not None
        inner = _CallReader(self.functions, (*self.inside, function.name)).region(function.body)
        first = replace(enters) if enters is not None and target(enters) == ENTERS else None
        operands = first.operands if first is not None else call.operands
        said = {**_said(first), **_said(leaves)}
        names = ("in_shardings", "out_shardings", "manual_axes")
        attributes = {name: said.get(f"xla.sdy.{name}", "") for name in names}
        return Operation(
            "sdy.manual_computation",
            list(operands),
            leaves.results,
            attributes,
            [inner],
            leaves.types,
            call.at,
            call.width,
        )


def _said(op: Operation | None) -> Mapping[str, Any]:
    given = op.attributes.get("mhlo.frontend_attributes") if op is not None else None
    return given if isinstance(given, Mapping) else {}


def target(op: Operation) -> object:
    """The target of a custom call."""
    return op.attributes.get("call_target_name") if op.name == "custom_call" else None


def plain(name: str) -> str:
    """The name of a value; the only result of an operation may be written as its first."""
    return name.removesuffix("#0")


# ---- those of GSPMD -----------------------------------------------------------------------------


def _of_gspmd(module: Module) -> Module:
    """The same for calls between custom calls of GSPMD, whose axes are named already."""
    mesh = next(iter(module.meshes), "")
    axes = re.findall(r'"[^"]+"', module.meshes.get(mesh, ""))
    if not axes:
        return module
    functions = {
        name: replace(function, body=_spmd(function.body, module.functions, mesh, axes))
        for name, function in module.functions.items()
    }
    return replace(module, functions=functions)


def _spmd(
    region: MlirRegion, functions: Mapping[str, MlirFunction], mesh: str, axes: list[str]
) -> MlirRegion:
    made = {plain(name): op for op in region.operations for name in op.results}
    readers = {plain(name): op for op in region.operations for name in op.operands}
    gone: set[int] = set()
    new: dict[int, Operation] = {}
    for op in region.operations:
        if op.name != "call" or not isinstance(callee := op.attributes.get("callee"), MlirSymbol):
            continue
        enters = [made.get(plain(name)) for name in op.operands]
        after = [readers.get(plain(name)) for name in op.results]
        leaves = [
            readers.get(plain(one.results[0]))
            if one is not None and target(one) == "Sharding" and one.results
            else one
            for one in after
        ]
        first = [one for one in enters if one is not None and target(one) == FULL]
        last = [one for one in leaves if one is not None and target(one) == PARTS]
        said = [one.attributes.get("mhlo.sharding") for one in first]
        function = functions.get(callee.name)
        if (
            function is None
            or not last
            or (len(first), len(last)) != (len(enters), len(leaves))
            or any(text != MANUAL for text in said)
        ):
            continue
        gone |= {id(one) for one in (op, *first, *last, *after) if one is not None}
        sources = [made.get(plain(one.operands[0])) for one in first]
        takes = [_sharding(one, mesh, t) for one, t in zip(sources, first, strict=True)]
        gives = [_sharding(one, mesh, one) for one in last]
        new[id(last[0])] = Operation(
            "sdy.manual_computation",
            [one.operands[0] for one in first],
            [name for one in last for name in one.results],
            {
                "in_shardings": ", ".join(takes),
                "out_shardings": ", ".join(gives),
                "manual_axes": ", ".join(axes),
            },
            [function.body],
            tuple(type for one in last for type in one.types),
            op.at,
            op.width,
        )
    operations = [
        new.get(id(op), op) for op in region.operations if id(op) in new or id(op) not in gone
    ]
    return MlirRegion(region.arguments, operations, region.at)


def _sharding(op: Operation | None, mesh: str, shape: Operation) -> str:
    """The sharding of the value that an operation gives; whole where nothing is said."""
    given = op.attributes.get("sdy.sharding") if op is not None else None
    rank = len(getattr(shape.types[0], "shape", ())) if shape.types else 0
    return given if isinstance(given, str) else f"<@{mesh}, [{', '.join(['{}'] * rank)}]>"
