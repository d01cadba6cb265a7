"""Blocks: a part of a graph that can be used several times, also in a chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.ir.graph import Node
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.blocks.inputs import arguments, chained, of_copy
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.entries import elaborate, entries_at
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.node_keys import otherwise, whole
from xlac.spec.elaborate.operations import same
from xlac.spec.elaborate.scope import Bundle, Copies, Scope, Value
from xlac.spec.report import Fault, Place, Poisoned, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import SpecEntry

MAX_DEPTH = 40  # of blocks inside blocks
MAX_REPEAT = 10_000


def use(
    context: Elaboration, scope: Scope, spec: schema.BlockNode, path: str, place: Place
) -> Value:
    """The results of a block. Raises Fault or Poisoned."""
    if (other := otherwise(context, scope, spec, path, place)) is not None:
        return other
    name = arithmetic.value(spec.block, scope.constants, place.at("block"))
    if ("blocks", name) in context.report.broken:
        raise Poisoned
    if not isinstance(name, str) or name not in context.blocks:
        raise Fault(
            "XL2011",
            f"unknown block {name!r}",
            place.at("block").span,
            nearest(str(name), context.blocks),
        )
    block = context.blocks[name]
    if name in context.stack:
        trail = " -> ".join([*context.stack[context.stack.index(name) :], name])
        raise Fault("XL2010", f"block {name!r} uses itself: {trail}", place.at("block").span)
    if len(context.stack) >= MAX_DEPTH:
        raise Fault("XL4014", f"blocks are nested deeper than {MAX_DEPTH}", place.at("block").span)
    given = arguments(context, scope, spec, block, name, path, place)
    if spec.repeat is not None:
        return repeated(context, scope, spec, block, name, given, path, place)
    for key in ("first", "last", "chain", "index"):
        if getattr(spec, key):
            raise Fault("XL1010", f"{key!r} belongs to a block with 'repeat'", place.at(key).key)
    return instance(context, scope, spec, block, name, given, 0, 1, f"{path}.", place)


def repeated(
    context: Elaboration,
    scope: Scope,
    spec: schema.BlockNode,
    block: SpecEntry[schema.BlockSpec],
    name: str,
    given: Mapping[str, Value],
    path: str,
    place: Place,
) -> Bundle:
    """A chain of copies of a block. An output's name denotes the values of all copies, a number one
    copy, `last` the last one. Raises Fault or Poisoned.
    """
    count = whole(scope, spec.repeat, place.at("repeat"), 1, MAX_REPEAT)
    indexed = set(spec.index)
    for i, key in enumerate(spec.index):
        if key not in given:
            raise Fault(
                "XL2005",
                f"block {name!r} has no input {key!r}",
                place.at("index", i).span,
                nearest(key, given),
            )
    chain = chained(spec, block, name, indexed, place)
    copies: list[Bundle] = []
    for number in range(count):
        values = dict(given)
        for key in indexed:
            values[key] = of_copy(context, given[key], number, count, key, path, place)
        if copies:
            values.update({into: copies[-1].members[out] for into, out in chain.items()})
        prefix = f"{path}.{number}."
        copies.append(
            instance(context, scope, spec, block, name, values, number, count, prefix, place)
        )
    members: dict[str, Value] = {str(i): one for i, one in enumerate(copies)}
    members["last"] = copies[-1]
    for out in copies[-1].members:
        members.setdefault(out, Copies(tuple(one.members[out] for one in copies)))
    return Bundle(members, copies[-1].main, copies[-1].results)


def instance(
    context: Elaboration,
    scope: Scope,
    spec: schema.BlockNode,
    block: SpecEntry[schema.BlockSpec],
    name: str,
    values: Mapping[str, Value],
    number: int,
    count: int,
    prefix: str,
    place: Place,
) -> Bundle:
    """One copy of a block. Raises Fault or Poisoned."""
    params = parameters(context, scope, spec, block, name, number, count, place)
    constants = scope.constants.extended(params)
    inner = Scope(scope.frame, constants, prefix)
    for key, value in values.items():
        inner.values[key] = value
    if isinstance(block.spec.inputs, dict):
        for key, text in block.spec.inputs.items():
            wanted = type_text.type_value(text, constants, block.place.at("inputs", key))
            value = values[key]
            if isinstance(value, Node) and not same(value.type, wanted):
                raise Fault(
                    "XL2013",
                    f"input {key!r} of block {name!r} is {wanted}, and got {value.type}",
                    place.at("in").span,
                )
    context.stack.append(name)
    context.used.add(name)
    try:
        elaborate(context, inner, entries_at(block.spec.graph, block.place.at("graph")))
        outputs = block.spec.outputs
        pairs = (
            [(n, n, block.place.at("outputs", i)) for i, n in enumerate(outputs)]
            if isinstance(outputs, list)
            else [(n, text, block.place.at("outputs", n)) for n, text in outputs.items()]
        )
        members: dict[str, Value] = {}
        for key, text, spot in pairs:
            try:
                output = expression(context, inner, text, prefix + key, spot)
                members[key] = as_node(context, output, text, prefix + key, spot)
            except Fault as fault:
                context.report.fault(fault)
                raise Poisoned from None
    finally:
        context.stack.pop()
    results = tuple(members.values())
    for key, copy_value in inner.values.items():  # `layer.h1`: values inside can be read
        if copy_value is not None and key not in members and key not in values:
            members[key] = copy_value
    return Bundle(members, results[0] if results else None, results)


def parameters(
    context: Elaboration,
    scope: Scope,
    spec: schema.BlockNode,
    block: SpecEntry[schema.BlockSpec],
    name: str,
    number: int,
    count: int,
    place: Place,
) -> dict[str, Any]:
    """The values of a block's parameters for one copy. Raises Fault."""
    values: dict[str, Any] = {}
    layers = [("with", spec.params)]
    if number == 0:
        layers.append(("first", spec.first))
    if number == count - 1:
        layers.append(("last", spec.last))
    outer = scope.constants.extended({"index": number}) if count > 1 else scope.constants
    for section, items in layers:
        for key, value in items.items():
            spot = place.at(section, key)
            if key not in block.spec.params:
                raise Fault(
                    "XL2005",
                    f"block {name!r} has no parameter {key!r}",
                    spot.key,
                    nearest(key, block.spec.params),
                )
            values[key] = arithmetic.value(value, outer, spot)
    result: dict[str, Any] = {}
    for key, default in block.spec.params.items():
        if key in values:
            result[key] = values[key]
        elif default is None:
            raise Fault(
                "XL2016",
                f"block {name!r} needs its parameter {key!r}",
                place.at("block").span,
                f"with: {{{key}: …}}",
            )
        else:
            result[key] = arithmetic.value(
                default, scope.constants.extended(result), block.place.at("params", key)
            )
    return result
