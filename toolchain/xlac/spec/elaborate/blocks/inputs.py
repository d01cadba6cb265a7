"""The inputs of a block: given by the caller, indexed by copy, or chained from copy to copy."""

from __future__ import annotations

from typing import Any

from xlac.ir.graph import Node
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Copies, Scope, Value
from xlac.spec.report import Attempts, Fault, Place, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import SpecEntry
from xlac.spec.text.spans import NodeSpans
from xlac_sdk.source import Origin
from xlac_sdk.support.counts import number_of


def arguments(
    context: Elaboration,
    scope: Scope,
    spec: schema.BlockNode,
    block: SpecEntry[schema.BlockSpec],
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
                f"block {name!r} takes {len(names)} input{plural} ({', '.join(names)}), and got "
                f"{len(listed)}",
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
    values: dict[str, Value] = {}
    attempts = Attempts(context.report)
    for key, (item, spot) in items.items():
        with attempts.part():
            value = expression(context, scope, item, path, spot)
            if not isinstance(value, Copies) or key not in spec.index:
                value = as_node(context, value, item, path, spot)
            values[key] = value
    attempts.finish()
    return values


def chained(
    spec: schema.BlockNode,
    block: SpecEntry[schema.BlockSpec],
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
            "XL2008",
            f"block {name!r} has {number_of(len(ins), 'input')} to feed",
            place.at("chain").span,
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


def of_copy(
    context: Elaboration, value: Value, number: int, count: int, key: str, path: str, place: Place
) -> Value:
    """The part of an indexed value that belongs to one copy of the block. Raises Fault."""
    from xlac.ops import build

    span = place.at("index").span
    if isinstance(value, Copies):
        if len(value.items) != count:
            raise Fault(
                "XL2009",
                f"input {key!r} holds {number_of(len(value.items), 'copy', 'copies')} "
                f"for {number_of(count, 'repetition')}",
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
    copy = build.reshape(build.cut(value, 0, number, number + 1), value.shape[1:])
    context.stamp([copy], Origin(path, place.key))
    return copy
