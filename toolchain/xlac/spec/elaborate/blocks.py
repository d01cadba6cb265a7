"""Blocks: a part of a graph used under several names, once or several times in a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.ir.graph import Node
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.context import Context
from xlac.spec.elaborate.entries import elaborate, entries_at
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.node_keys import otherwise, whole
from xlac.spec.elaborate.operations import same
from xlac.spec.elaborate.scope import Bundle, Copies, Scope, Value
from xlac.spec.report import Fault, Place, Poisoned, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import Entry
from xlac.spec.text.spans import NodeSpans
from xlac_sdk.source import Origin

MAX_DEPTH = 40  # of blocks inside blocks
MAX_REPEAT = 10_000


def use(context: Context, scope: Scope, spec: schema.BlockNode, path: str, place: Place) -> Value:
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
    count = (
        None
        if spec.repeat is None
        else whole(scope, spec.repeat, place.at("repeat"), 1, MAX_REPEAT)
    )
    if count is None:
        for key in ("first", "last", "chain", "index"):
            if getattr(spec, key):
                raise Fault(
                    "XL1010", f"{key!r} belongs to a block with 'repeat'", place.at(key).key
                )
        return instance(context, scope, spec, block, name, given, 0, 1, f"{path}.", place)
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
    made: list[Bundle] = []
    for number in range(count):
        values = dict(given)
        for key in indexed:
            values[key] = pick(context, given[key], number, count, key, path, place)
        if made:
            values.update({into: made[-1].members[out] for into, out in chain.items()})
        made.append(
            instance(
                context, scope, spec, block, name, values, number, count, f"{path}.{number}.", place
            )
        )
    members: dict[str, Value] = {str(i): one for i, one in enumerate(made)}
    members["last"] = made[-1]
    for out in made[-1].members:
        members.setdefault(out, Copies(tuple(one.members[out] for one in made)))
    return Bundle(members, made[-1].main, made[-1].results)


def arguments(
    context: Context,
    scope: Scope,
    spec: schema.BlockNode,
    block: Entry[schema.BlockSpec],
    name: str,
    path: str,
    place: Place,
) -> dict[str, Value]:
    """The values for a block's inputs, by name. Raises Fault or Poisoned."""
    names = list(block.spec.inputs)
    at = place.at("in")
    items: dict[str, tuple[Any, Place]] = {}
    if isinstance(spec.inputs, dict):
        for key, item in spec.inputs.items():
            if key not in names:
                raise Fault(
                    "XL2005",
                    f"block {name!r} has no input {key!r}",
                    at.at(key).key,
                    nearest(key, names),
                )
            items[key] = (item, at.at(key))
    else:
        listed = spec.inputs if isinstance(spec.inputs, list) else [spec.inputs]
        if len(listed) > len(names):
            plural = "" if len(names) == 1 else "s"
            raise Fault(
                "XL2008",
                f"block {name!r} takes {len(names)} input{plural} ({', '.join(names)}), and got {len(listed)}",
                at.at(len(names)).span if isinstance(spec.inputs, list) else at.span,
            )
        for i, item in enumerate(listed):
            items[names[i]] = (item, at.at(i) if isinstance(spec.inputs, list) else at)
    if missing := [n for n in names if n not in items]:
        raise Fault(
            "XL2008",
            f"block {name!r} needs its input {missing[0]!r}",
            NodeSpans(place, spec).whole(),
        )
    found: dict[str, Value] = {}
    failed = False
    for key, (item, spot) in items.items():
        try:
            value = expression(context, scope, item, path, spot)
            if not isinstance(value, Copies) or key not in spec.index:
                value = as_node(context, value, item, path, spot)
            found[key] = value
        except Fault as fault:
            context.report.fault(fault)
            failed = True
        except Poisoned:
            failed = True
    if failed:
        raise Poisoned
    return found


def chained(
    spec: schema.BlockNode,
    block: Entry[schema.BlockSpec],
    name: str,
    indexed: set[str],
    place: Place,
) -> dict[str, str]:
    """Which output of a copy feeds which input of the next. Raises Fault."""
    outs, ins = list(block.spec.outputs), list(block.spec.inputs)
    if spec.chain is None:
        return {ins[0]: outs[0]} if ins and outs and ins[0] not in indexed else {}
    pairs = spec.chain if isinstance(spec.chain, dict) else dict(zip(ins, spec.chain, strict=False))
    if isinstance(spec.chain, list) and len(spec.chain) > len(ins):
        raise Fault(
            "XL2008", f"block {name!r} has {len(ins)} inputs to feed", place.at("chain").span
        )
    for number, (into, out) in enumerate(pairs.items()):
        spot = place.at("chain", number if isinstance(spec.chain, list) else into)
        if into not in ins:
            raise Fault(
                "XL2005", f"block {name!r} has no input {into!r}", spot.key, nearest(into, ins)
            )
        if out not in outs:
            raise Fault(
                "XL2005", f"block {name!r} has no output {out!r}", spot.span, nearest(out, outs)
            )
        if into in indexed:
            raise Fault("XL2005", f"input {into!r} is both indexed and chained", spot.span)
    return dict(pairs)


def pick(
    context: Context, value: Value, number: int, count: int, key: str, path: str, place: Place
) -> Value:
    """The part of an indexed value that belongs to one copy of the block. Raises Fault."""
    from xlac.ops import build

    span = place.at("index").span
    if isinstance(value, Copies):
        if len(value.items) != count:
            raise Fault(
                "XL2009",
                f"input {key!r} holds {len(value.items)} copies for {count} repetitions",
                span,
            )
        return value.items[number]
    assert isinstance(value, Node)
    if not value.shape or value.shape[0] != count:
        raise Fault(
            "XL2009",
            f"input {key!r} of type {value.type} has no axis 0 of {count}, one for each repetition",
            span,
        )
    made = build.reshape(build.cut(value, 0, number, number + 1), value.shape[1:])
    context.stamp([made], Origin(path, place.key))
    return made


def instance(
    context: Context,
    scope: Scope,
    spec: schema.BlockNode,
    block: Entry[schema.BlockSpec],
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
                found = expression(context, inner, text, prefix + key, spot)
                members[key] = as_node(context, found, text, prefix + key, spot)
            except Fault as fault:
                context.report.fault(fault)
                raise Poisoned from None
    finally:
        context.stack.pop()
    results = tuple(members.values())
    for key, made in inner.values.items():  # `layer.h1`: what is inside a block can be read too
        if made is not None and key not in members and key not in values:
            members[key] = made
    return Bundle(members, results[0] if results else None, results)


def parameters(
    context: Context,
    scope: Scope,
    spec: schema.BlockNode,
    block: Entry[schema.BlockSpec],
    name: str,
    number: int,
    count: int,
    place: Place,
) -> dict[str, Any]:
    """The values of a block's parameters for one copy. Raises Fault."""
    found: dict[str, Any] = {}
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
            found[key] = arithmetic.value(value, outer, spot)
    result: dict[str, Any] = {}
    for key, default in block.spec.params.items():
        if key in found:
            result[key] = found[key]
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
