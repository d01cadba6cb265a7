"""Finds the names that an entry of a graph reads, which determines the order of elaboration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from xlac.spec.schema import schema
from xlac.spec.text.expression import parse
from xlac.spec.text.grammar import Malformed

Known = Callable[[str], bool]


def split_names(key: str) -> tuple[str, ...]:
    """The names that a key defines: several for several results."""
    return tuple(part.strip() for part in key.split(",")) if "," in key else (key,)


def names_of(text: Any, known: Known) -> Iterable[str]:
    """The names in an expression or reference."""
    if not isinstance(text, str):
        return ()
    if text.isidentifier() or known(text):
        return (text,)
    try:
        return parse(text).names
    except Malformed:
        return ()


def reads(spec: Any, known: Known, fields: Callable[[str], frozenset[str] | None]) -> Iterator[str]:
    """The names that an entry reads. `fields` gives the attributes of an operation by name."""
    match spec:
        case str():
            yield from names_of(spec, known)
        case schema.OpNode():
            yield from references(spec.inputs, known)
            yield from names_of(spec.otherwise, known)
            attributes = fields(spec.op)
            for key, value in spec.attributes.items():
                if isinstance(value, str) and attributes is not None and key not in attributes:
                    yield from names_of(value, known)
        case schema.BlockNode():
            yield from references(spec.inputs, known)
            yield from names_of(spec.otherwise, known)
        case schema.ScanNode():
            yield from references(spec.scan, known)
            for carry in spec.carry.values():
                yield from references(
                    carry.init if isinstance(carry, schema.Carry) else carry, known
                )
            yield from references(spec.given, known)
            local = {*spec.scan, *spec.carry, *spec.given}
            yield from body_reads(
                spec.body, [*spec.next.values(), *spec.stack.values()], local, known, fields
            )
        case schema.WhileNode():
            for carry in spec.carry.values():
                yield from references(
                    carry.init if isinstance(carry, schema.Carry) else carry, known
                )
            yield from references(spec.given, known)
            local = {*spec.carry, *spec.given}
            yield from body_reads(spec.body, spec.next.values(), local, known, fields)
            yield from branch_reads(spec.condition, local, known, fields)
        case schema.CondNode():
            yield from names_of(spec.on, known)
            yield from references(spec.given, known)
            for branch in (spec.then, spec.otherwise, *(spec.branches or ())):
                yield from branch_reads(branch, {*spec.given}, known, fields)


def branch_reads(
    spec: Any, local: set[str], known: Known, fields: Callable[[str], frozenset[str] | None]
) -> Iterator[str]:
    """The names that a branch reads from around it: an expression, or a graph of its own."""
    if isinstance(spec, schema.Branch):
        outputs = spec.outputs if isinstance(spec.outputs, list) else spec.outputs.values()
        yield from body_reads(spec.body, outputs, local, known, fields)
    else:
        yield from body_reads({}, [spec], local, known, fields)


def references(inputs: Any, known: Known) -> Iterator[str]:
    """The names in the `in` of a node."""
    items = (
        inputs.values()
        if isinstance(inputs, dict)
        else inputs
        if isinstance(inputs, list)
        else [inputs]
    )
    for item in items:
        yield from names_of(item, known)


def body_reads(
    body: Mapping[str, Any],
    results: Iterable[Any],
    local: set[str],
    known: Known,
    fields: Callable[[str], frozenset[str] | None],
) -> Iterator[str]:
    """The names that a body reads from around it."""
    local = local.union(*(split_names(key) for key in body))

    def inside(name: str) -> bool:
        return is_local(name) or known(name)

    def is_local(name: str) -> bool:
        return name in local or any(name[:i] in local for i, c in enumerate(name) if c == ".")

    for spec in body.values():
        yield from (name for name in reads(spec, inside, fields) if not is_local(name))
    for result in results:
        yield from (name for name in names_of(result, inside) if not is_local(name))
