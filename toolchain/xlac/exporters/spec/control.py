"""Writes loops, conditionals and bodies of a spec: closed, with all captured values passed by
name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlac.exporters.spec.learned import kept
from xlac.exporters.spec.names import Names, clean
from xlac.exporters.spec.values import plain
from xlac.ir.graph import Graph, Node
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Cond, Scan, While
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import param
from xlac.spec.text.write import flow, scalar, type_text
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.exporters.spec.section import Section


def members(section: Section, node: Node) -> list[str]:
    """The names of the results of a loop or conditional, after a dot; empty for other nodes."""
    match node.op:
        case Scan(body=Graph() as body, carries=carries):
            names = Names()
            carried = [names.plain(clean(param(p).name)) for p in body.inputs[:carries]]
            return [*carried, *(names.plain(f"y{i}") for i in range(len(node.results) - carries))]
        case (While() | BoundedWhile()) as op if op.body is not None:
            names, body = Names(), op.body
            return [
                names.plain(clean(param(p).name))
                for p in body.inputs[: kept(op, section.book.learned.read.get(node, 0))]
            ]
        case Cond():
            return [f"y{i}" for i in range(len(node.results))]
    return []


def lines(section: Section, node: Node, path: str, indent: str) -> list[str]:
    """The lines of a loop or conditional."""
    match node.op:
        case Scan():
            return scan(section, node, node.op, path, indent)
        case While() | BoundedWhile():
            return loop(section, node, node.op, path, indent)
        case Cond():
            return cond(section, node, node.op, path, indent)
    raise AssertionError(node.op.mnemonic)


def scan(section: Section, node: Node, op: Scan, path: str, indent: str) -> list[str]:
    """The lines of a scan node."""
    assert isinstance(op.body, Graph)
    names, outer = members(section, node), [section.names.get(i, "") for i in node.inputs]
    inner = inner_names(op.body.inputs, names[: op.carries], names[op.carries :])
    end = op.carries + op.scanned
    rows, results = body(section, op.body, inner, f"{path}.", indent)
    return [
        (
            f"{indent}scan: "
            f"{flow(dict(zip(inner[op.carries : end], outer[op.carries : end], strict=True)))}"
        ),
        f"{indent}length: {flow(plain(op.length))}",
        *([f"{indent}reverse: true"] if op.reverse else []),
        *([f"{indent}checkpoint_every: {op.checkpoint_every}"] if op.checkpoint_every else []),
        f"{indent}carry: {flow(dict(zip(inner[: op.carries], outer, strict=False)))}",
        *handed(section, op.body.inputs[end:], inner[end:], outer[end:], indent),
        *rows,
        f"{indent}next: {flow(dict(zip(inner[: op.carries], results, strict=False)))}",
        (
            f"{indent}stack: "
            f"{flow(dict(zip(names[op.carries :], results[op.carries :], strict=True)))}"
        ),
    ]


def loop(
    section: Section, node: Node, op: While | BoundedWhile, path: str, indent: str
) -> list[str]:
    """The lines of a while node."""
    assert isinstance(op.cond, Graph) and isinstance(op.body, Graph)
    names, outer = members(section, node), [section.names.get(i, "") for i in node.inputs]
    count = len(names)
    inner = inner_names(op.body.inputs, names)
    test = branch(section, op.cond, inner, f"{path}.while.", ["holds"], indent + "  ")
    rows, results = body(section, op.body, inner, f"{path}.", indent)
    return [
        f"{indent}while:",
        *test,
        *([f"{indent}max: {flow(plain(op.max))}"] if isinstance(op, BoundedWhile) else []),
        f"{indent}carry: {flow(dict(zip(inner[:count], outer, strict=False)))}",
        *handed(section, op.body.inputs[count:], inner[count:], outer[count:], indent),
        *rows,
        f"{indent}next: {flow(dict(zip(inner[:count], results, strict=False)))}",
    ]


def cond(section: Section, node: Node, op: Cond, path: str, indent: str) -> list[str]:
    """The lines of a cond node: then and else where the branch number is a converted bool, else
    branches.
    """
    number, outer = node.inputs[0], [section.names.get(i, "") for i in node.inputs[1:]]
    first = op.branches[0]
    names, inner = members(section, node), inner_names(first.inputs)
    given = handed(section, first.inputs, inner, outer, indent)
    if number in section.folded:
        rows = [f"{indent}cond: {scalar(section.names[number.inputs[0]])}", *given]
        for key, one in zip(("then", "else"), reversed(op.branches), strict=True):
            rows += [
                f"{indent}{key}:",
                *branch(section, one, inner, f"{path}.{key}.", names, indent + "  "),
            ]
        return rows
    rows = [f"{indent}cond: {scalar(section.names[number])}", *given, f"{indent}branches:"]
    for i, one in enumerate(op.branches):
        head, *rest = branch(section, one, inner, f"{path}.{i}.", names, indent + "  ")
        rows += [f"{indent}- {head.strip()}", *rest]
    return rows


def is_flag(node: Node) -> bool:
    """Whether a conditional selects one of two branches by a bool."""
    number = node.inputs[0]
    assert isinstance(node.op, Cond)
    return (
        len(node.op.branches) == 2
        and isinstance(number.op, Cast)
        and number.inputs[0].type.dtype is DType.BOOL
    )


def inner_names(
    inputs: Sequence[Node], first: Sequence[str] = (), reserved: Sequence[str] = ()
) -> list[str]:
    """The names of a body's inputs inside it: `first`, and for the others their outer names."""
    names = Names([*first, *reserved])
    return [*first, *(names.plain(clean(param(p).name)) for p in inputs[len(first) :])]


def handed(
    section: Section,
    inputs: Sequence[Node],
    inner: Sequence[str],
    outer: Sequence[str],
    indent: str,
) -> list[str]:
    """The line with the values passed to a body, without tensors that its operations learn."""
    learned = section.book.learned
    given = {
        name: value for p, name, value in zip(inputs, inner, outer, strict=True) if p not in learned
    }
    return [f"{indent}with: {flow(given)}"] if given else []


def body(
    section: Section,
    graph: Graph,
    inner: Sequence[str],
    prefix: str,
    indent: str,
    key: str = "body",
) -> tuple[list[str], list[str]]:
    """The lines of a body, and the names of its results."""
    learned = section.book.learned
    known = {p: name for p, name in zip(graph.inputs, inner, strict=True) if p not in learned}
    inside = section.nested(graph, prefix, known)
    rows = inside.lines(indent + "  ")
    head = [f"{indent}{key}:", *rows] if rows else [f"{indent}{key}: {{}}"]
    # learned tensors only pass through
    return head, [inside.names.get(n, "") for n in graph.outputs.values()]


def branch(
    section: Section,
    graph: Graph,
    inner: Sequence[str],
    prefix: str,
    names: Sequence[str],
    indent: str,
) -> list[str]:
    """A branch: its body and its results."""
    rows, results = body(section, graph, inner, prefix, indent)
    return [*rows, f"{indent}outputs: {flow(dict(zip(names, results, strict=True)))}"]


def function(section: Section, graph: Graph, prefix: str, indent: str) -> list[str]:
    """A closed body: the types of its inputs, its graph and its results."""
    inner = inner_names(graph.inputs)
    types: dict[str, Any] = {
        name: type_text(p.type) for name, p in zip(inner, graph.inputs, strict=True)
    }
    rows, results = body(section, graph, inner, prefix, indent, "graph")
    outputs = {f"y{i}": name for i, name in enumerate(results)}
    return [f"{indent}inputs: {flow(types)}", *rows, f"{indent}outputs: {flow(outputs)}"]
