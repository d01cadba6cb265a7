"""Applies an operation by name: checks its attributes, operands and learned tensors, and makes its
node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.ir.op import OPS, Op, ShapeError, arity
from xlac.ir.types import Type
from xlac.ops.values import Weak
from xlac.spec.elaborate import attributes
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.scope import Bundle, Scope, Value
from xlac.spec.report import Fault, Poisoned, nearest
from xlac.spec.text.floats import check_numbers
from xlac.spec.text.spans import shape_fault
from xlac_sdk.source import Origin, Span

Operand = Node | int | float | bool | Weak
STRUCTURAL = {
    "param": "declare it under inputs",
    "const": "write the number",
    "pick": "name the results: 'a, b: …'",
    "cond": "write {cond: …, then: …, else: …}",
    "while": "write {while: …, carry: …, body: …, next: …}",
    "scan": "write {scan: …, carry: …, body: …, next: …}",
    "call": "use a block, or write {op: call, in: …, body: …}",
    "custom_gradient": "declare `gradient` beside `expr` in ops",
    "custom_op": "declare `kernels` beside `expr` in ops",
    "custom_change": "gradients of operations that declare theirs are made of this",
    "bounded_while": "write {while: …, max: …, carry: …, body: …, next: …}",
    "counted_scan": "write a scan; gradients of loops are made of this",
}
LITERALS = ("weight", "constant")  # nodes that only specs have
VARIANTS = {"max": "reduce_max", "min": "reduce_min"}  # the reduction of a single tensor


def table() -> Mapping[str, type[Op]]:
    """All operations."""
    import xlac.ops

    assert xlac.ops
    return OPS


def known(context: Elaboration) -> list[str]:
    """The operations that a spec may use."""
    return [*context.custom, *LITERALS, *known_names()]


def known_names() -> list[str]:
    """The operations that specs can name."""
    return [name for name in table() if name not in STRUCTURAL]


def find(context: Elaboration, name: str, span: Span) -> type[Op]:
    """The declaration of an operation. Raises Fault."""
    ops = table()
    if name in STRUCTURAL:
        raise Fault("XL2001", f"{name!r} is not used as an operation", span, STRUCTURAL[name])
    if ("ops", name) in context.report.broken:
        raise Poisoned
    if name not in ops:
        hint = nearest(name, known(context))
        if name in context.blocks:
            hint = f"{name!r} is a block: write {{block: {name}}}"
        raise Fault("XL2001", f"unknown operation {name!r}", span, hint)
    return ops[name]


def fields(context: Elaboration, name: str) -> frozenset[str] | None:
    """The attributes of an operation by name; None for an unknown one."""
    if name in context.custom:
        return frozenset(context.custom[name].spec.params)
    if name in LITERALS:
        return frozenset({"type", "value", "dtype"})
    op = table().get(name)
    if op is None:
        return None
    if op.parameters is Op.parameters:
        return frozenset(attributes.names(op))
    # 'bias: b' gives the tensor, 'bias: false' omits it
    return frozenset(attributes.names(op)) - attributes.flags(op)


def operand_names(op: type[Op]) -> list[str]:
    """The names of the inputs, without the markers `?` (optional) and `*` (repeated)."""
    return [name.strip("?*") for name in op.operands]


def apply(
    context: Elaboration,
    scope: Scope,
    name: str,
    operands: Sequence[Operand],
    given: Mapping[str, Any],
    learned: Mapping[str, Node],
    path: str,
    spans: Any,
    at: Span,
    body: Graph | None = None,
    exact: bool = False,
) -> Value:
    """The result of an operation: a node, or a bundle of several. Raises Fault.

    `given` are attributes, evaluated but unchecked; `learned` are values for learned tensors.
    `path` names the node and its learned tensors; `spans` has the places of its parts, and `at` its
    own. `body` is the graph inside it. With `exact` operands are neither promoted nor broadcast.
    """
    if name in VARIANTS and len(operands) == 1 and VARIANTS[name] in table():
        name = VARIANTS[name]
    op = table()[name] if name == "call" and body is not None else find(context, name, spans.name())
    valid = checked(context, op, given, learned, spans, exact)
    if body is not None:
        valid["body"] = body
    check_arity(name, op, operands, spans)
    numbers = operands
    from xlac.ops import build

    try:
        if op.parameters is not Op.parameters:
            operands = with_parameters(context, scope, op, operands, valid, learned, path, spans)
        elif learned:
            wrong = next(iter(learned))
            raise Fault(
                "XL2005",
                f"unknown attribute {wrong!r} for {name}",
                spans.attribute_key(wrong),
                nearest(wrong, attributes.names(op)),
            )
        result = (
            build.make(op, [build.as_node(o) for o in operands], valid)
            if exact
            else build.apply(name, *operands, **valid)
        )
    except ShapeError as error:
        raise shape_fault(error, name, spans) from None
    except ValueError as error:
        raise Fault("XL2009", f"{name}: {error}", spans.whole()) from None
    results = result if isinstance(result, tuple) else build.results(result)
    check_numbers(numbers, valid, results, spans)
    context.stamp(results, Origin(path, at))
    return results[0] if len(results) == 1 else bundle(results)


def bundle(nodes: Sequence[Value]) -> Bundle:
    """Several results in order."""
    return Bundle({str(i): node for i, node in enumerate(nodes)}, None, tuple(nodes))


def checked(
    context: Elaboration,
    op: type[Op],
    given: Mapping[str, Any],
    learned: Mapping[str, Node],
    spans: Any,
    exact: bool = False,
) -> dict[str, Any]:
    """The attributes, converted. All faults but the last go to the report; the last is raised."""
    valid, wrongs = attributes.check(op, given, exact)
    faults = []
    for wrong in wrongs:
        if wrong.kind == "unknown":
            inputs, options = operand_names(op), [*attributes.names(op), "in", "op"]
            faults.append(
                Fault(
                    "XL2005",
                    f"unknown key {wrong.name!r} for {op.mnemonic}",
                    spans.attribute_key(wrong.name),
                    f"it is an input: in: [{', '.join(inputs)}]"
                    if wrong.name in inputs
                    else nearest(wrong.name, options),
                )
            )
        elif wrong.kind == "missing":
            faults.append(Fault("XL2007", f"{op.mnemonic} needs {wrong.name!r}", spans.whole()))
        else:
            faults.append(
                Fault(
                    "XL2006",
                    f"{wrong.name} of {op.mnemonic}: {wrong.message}",
                    spans.attribute(wrong.name, wrong.path),
                )
            )
    for fault in faults[:-1]:
        context.report.fault(fault)
    if faults:
        raise faults[-1]
    return valid


def check_arity(name: str, op: type[Op], operands: Sequence[Operand], spans: Any) -> None:
    """Raises Fault for too few or too many operands."""
    fewest, most = arity(op)
    if len(operands) < fewest or (most is not None and len(operands) > most):
        wanted = (
            f"{fewest}"
            if most == fewest
            else f"at least {fewest}"
            if most is None
            else f"{fewest} to {most}"
        )
        names = ", ".join(op.operands) or "none"
        plural = "" if wanted == "1" else "s"
        raise Fault(
            "XL2008",
            f"{name} takes {wanted} input{plural} ({names}), and got {len(operands)}",
            spans.operand(most) if most is not None and len(operands) > most else spans.whole(),
        )


def with_parameters(
    context: Elaboration,
    scope: Scope,
    op: type[Op],
    operands: Sequence[Operand],
    valid: Mapping[str, Any],
    learned: Mapping[str, Node],
    path: str,
    spans: Any,
) -> list[Operand]:
    """The operands and the learned tensors that follow them."""
    from xlac.ops import build

    nodes = [build.as_node(o) for o in operands]
    wanted = op(**valid).parameters(*(node.type for node in nodes))
    for name in learned:
        if name not in wanted:
            raise Fault(
                "XL2005",
                f"unknown key {name!r} for {op.mnemonic}",
                spans.attribute_key(name),
                nearest(name, [*attributes.names(op), *wanted]),
            )
    result: list[Operand] = [*nodes]
    for name, type in wanted.items():
        if name in learned:
            if not same(learned[name].type, type):
                raise Fault(
                    "XL2009",
                    f"{name} of {op.mnemonic} is {type}, and this value is {learned[name].type}",
                    spans.attribute(name),
                )
            result.append(learned[name])
        else:
            result.append(context.weight(scope, f"{path}.{name}", type, spans.whole()))
    return result


def same(a: Type, b: Type) -> bool:
    """Whether two types are equal; symbolic sizes are compared as formulas."""
    return a.dtype == b.dtype and a.shape == b.shape
