"""Exports branches, loops and calls. Bodies refer to outer values by name."""

from __future__ import annotations

from xlac.exporters.onnx.writer import OnnxWriter, rule
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops.control.control import Cond, Scan, While
from xlac_sdk.dtypes import DType


@rule("call")
def call(w: OnnxWriter, node: Node, *args: str) -> list[str]:
    """Inlines the body of a call."""
    return w.inline(node.op.body, args)  # type: ignore[attr-defined]


@rule("cond")
def cond(w: OnnxWriter, node: Node, index: str, *args: str) -> list[str]:
    """Nested Ifs: first branch or else, second branch or else, …; the last branch is the final
    else.
    """
    assert isinstance(node.op, Cond)
    branches = node.op.branches

    def chosen(number: int) -> list[str]:
        if number == len(branches) - 1:
            return w.inline(branches[number], args)
        this = w.op("Equal", index, w.constant(number, DType.I32))
        then = w.subgraph(f"{w.hint}.{number}", [], lambda: w.inline(branches[number], args))
        rest = w.subgraph(f"{w.hint}.else", [], lambda: chosen(number + 1))
        return w.many("If", [this], len(node.results), then_branch=then, else_branch=rest)

    return chosen(0)


@rule("while")
def loop(w: OnnxWriter, node: Node, *carry: str) -> list[str]:
    """A Loop without a bound; its condition is computed before it, and at the end of each
    iteration.
    """
    op = node.op
    assert isinstance(op, While) and isinstance(op.cond, Graph) and isinstance(op.body, Graph)
    test, body = op.cond, op.body
    (first,) = w.inline(test, carry)
    names = [w.fresh(f"{w.hint}.{i}") for i in range(len(carry))]
    inputs = [(w.fresh("step"), Type(DType.I64)), (w.fresh("holds"), Type(DType.BOOL))]
    inputs += [(name, given.type) for name, given in zip(names, node.inputs, strict=True)]

    def step() -> list[str]:
        after = w.inline(body, names)
        return [*w.inline(test, after), *after]

    return w.many(
        "Loop", ["", first, *carry], len(carry), body=w.subgraph(f"{w.hint}.body", inputs, step)
    )


@rule("scan")
def scan(w: OnnxWriter, node: Node, *operands: str) -> list[str]:
    """Scan, or Loop where nothing is sliced."""
    op = node.op
    assert isinstance(op, Scan) and isinstance(op.body, Graph)
    body = op.body
    end = op.carries + op.scanned
    if op.scanned == 0:
        return counted(w, node, op, body, operands)
    names = [w.fresh(f"{w.hint}.{i}") for i in range(end)]
    inputs = [(name, p.type) for name, p in zip(names, body.inputs, strict=False)]
    graph = w.subgraph(f"{w.hint}.body", inputs, lambda: w.inline(body, [*names, *operands[end:]]))
    yields = len(node.results) - op.carries
    directions = {"scan_input_directions": [1] * op.scanned} if op.reverse else {}
    directions |= {"scan_output_directions": [1] * yields} if op.reverse and yields else {}
    return w.many(
        "Scan",
        operands[:end],
        len(node.results),
        body=graph,
        num_scan_inputs=op.scanned,
        **directions,
    )


def counted(
    w: OnnxWriter, node: Node, op: Scan, body: Graph, operands: tuple[str, ...]
) -> list[str]:
    """A scan without scanned inputs, as a Loop; the stacked results of a reversed one are
    reversed.
    """
    names = [w.fresh(f"{w.hint}.{i}") for i in range(op.carries)]
    inputs = [(w.fresh("step"), Type(DType.I64)), (w.fresh("holds"), Type(DType.BOOL))]
    inputs += [(name, p.type) for name, p in zip(names, body.inputs, strict=False)]
    always = w.constant(True, DType.BOOL)
    graph = w.subgraph(
        f"{w.hint}.body",
        inputs,
        lambda: [always, *w.inline(body, [*names, *operands[op.carries :]])],
    )
    steps = w.op("Reshape", w.size(op.length), w.constant([1]))
    results = w.many(
        "Loop", [steps, always, *operands[: op.carries]], len(node.results), body=graph
    )
    if op.reverse:
        back = [w.constant([-1]), w.constant([-(2**62)]), w.constant([0]), w.constant([-1])]
        results[op.carries :] = [w.op("Slice", x, *back) for x in results[op.carries :]]
    return results
