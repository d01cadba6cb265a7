"""A graph as a spec: blocks unrolled, every type shown. What is written loads again to an equal graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from xlac.ir.dims import UNBOUNDED, Sym, Symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op
from xlac.model import Model
from xlac.ops.control import Call, Cond, Pick, Scan, While
from xlac.ops.convert import Cast
from xlac.ops.leaf import Const, Param
from xlac.ops.view import Slice
from xlac.spec import attributes
from xlac.spec.text import flow, scalar, type_text
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, UnsupportedError


def expand(model: Model, head: Mapping[str, Any] | None = None) -> str:
    """The text of a spec. `head` holds sections that are written as they are (weights, ops)."""
    writer = _Writer(model)
    lines = ["xlac: 1", f"model: {scalar(model.name)}"]
    if model.doc:
        lines.append(f"doc: {scalar(model.doc)}")
    if model.precision != "default":
        lines.append(f"precision: {model.precision}")
    if model.dims:
        lines += ["dims:", *(f"  {scalar(name)}: {_bounds(symbol)}" for name, symbol in model.dims.items())]
    for section, value in (head or {}).items():
        lines.append(f"{section}: {flow(value)}")
    kinds: dict[str, list[Node]] = {"input": [], "state": []}
    for node in model.graph.inputs:
        kinds[getattr(node.op, "kind", "input")].append(node)
    if kinds["input"]:
        lines += ["inputs:", *(f"  {scalar(n.op.name)}: {scalar(type_text(n.type))}" for n in kinds["input"])]  # type: ignore[attr-defined]
    body = writer.section(model.graph, "  ", {})
    if kinds["state"]:
        lines.append("state:")
        for node in kinds["state"]:
            name = node.op.name  # type: ignore[attr-defined]
            after = writer.names[model.graph.outputs[model.state[name]]]
            lines.append(f"  {scalar(name)}: {{type: {scalar(type_text(node.type))}, next: {scalar(after)}}}")
    if body:
        lines += ["graph:", *body]
    hidden = {model.state[n] for n in model.state if model.state[n] == f"{n}.next"}
    lines.append("outputs:")
    for name, node in model.graph.outputs.items():
        if name not in hidden:
            lines.append(f"  {scalar(name)}: {scalar(writer.names[node])}")
    return "\n".join(lines) + "\n"


class _Writer:
    """Names for nodes, and their lines."""

    def __init__(self, model: Model) -> None:
        self.names: dict[Node, str] = {}
        self.taken: set[str] = set()
        self.roots: dict[Node, Node] = {}  # input of a body -> what it stands for, outermost
        self.made = self._made(model.graph)
        for node in _everything(model.graph):
            if isinstance(node.op, Param) and (node in model.graph.inputs or node.op.kind == "weight"):
                self.names[node] = node.op.name
                self.taken.add(node.op.name)

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet."""
        name = wanted or "n"
        n = 0
        while name in self.taken or name.endswith("~"):
            n += 1
            name = f"{wanted.removesuffix('~') or 'n'}~{n}"
        self.taken.add(name)
        return name

    def section(self, graph: Graph, indent: str, known: Mapping[Node, str], prefix: str = "") -> list[str]:
        """The lines of a graph; `known` names what its inputs stand for."""
        self.names.update(known)
        order = list(graph.nodes())
        keeps = self._keepers(order)
        lines: list[str] = []
        results: dict[Node, dict[int, Node]] = {}
        for node in order:
            if isinstance(node.op, Pick):
                results.setdefault(node.inputs[0], {})[node.op.index] = node
        for node in order:
            if node in self.names or isinstance(node.op, Pick) or node in self.made:
                continue
            if isinstance(node.op, Param):
                raise _cannot("reads a value from around its body", node)
            local = node.name.removeprefix(prefix) if node.name.startswith(prefix) else node.name
            if len(node.results) > 1:
                base = self.fresh(local) if node.op.bodies() else local
                picks = results.get(node, {})
                names = [self._pick_name(picks.get(i), base, i, prefix) for i in range(len(node.results))]
                self.names.update({pick: self._result(node, base, i, names) for i, pick in picks.items()})
                key = base if node.op.bodies() else ", ".join(names)
            else:
                wanted = local if keeps.get(node.name) is node else f"{local}~"
                key = self.fresh(wanted)
                self.names[node] = key
            lines += self.entry(node, key, indent)
        weights = [f"{indent}{scalar(n.name)}: {{op: weight, type: {scalar(type_text(n.type))}}}" for n in order
                   if isinstance(n.op, Param) and n.op.kind == "weight" and n not in self.made]  # fmt: skip
        return weights + lines

    def _pick_name(self, pick: Node | None, base: str, index: int, prefix: str) -> str:
        """The user's name of a result, where there is one."""
        own = pick.name.removeprefix(prefix) if pick is not None else ""
        return self.fresh(own if own and own not in self.taken else f"{base}~{index}")

    def _keepers(self, order: Iterable[Node]) -> dict[str, Node]:
        """Of the nodes with one name, which keeps it: what names others inside or learns, else the last."""
        found: dict[str, Node] = {}
        strong: set[str] = set()
        for node in order:
            names = bool(node.op.bodies()) or any(self.root(i) in self.made for i in node.inputs)
            if not isinstance(node.op, Pick) and (names or node.name not in strong):
                found[node.name] = node
                strong |= {node.name} if names else set()
        return found

    def _result(self, node: Node, base: str, index: int, names: list[str]) -> str:
        if isinstance(node.op, Scan):
            return f"{base}.c{index}" if index < node.op.carries else f"{base}.y{index - node.op.carries}"
        if isinstance(node.op, While):
            assert isinstance(node.op.body, Graph)
            captured = node.op.body.inputs[index] in _captures(node)
            return self.names[node.inputs[index]] if captured else f"{base}.c{index}"
        if isinstance(node.op, Cond):
            return f"{base}.y{index}"
        return names[index]

    def root(self, node: Node) -> Node:
        """What a value is outside of every body."""
        while node in self.roots:
            node = self.roots[node]
        return node

    def _made(self, graph: Graph) -> set[Node]:
        """Weights that their only user makes itself when it is loaded again, under the same name."""
        nodes = list(_everything(graph))
        for node in nodes:
            for inner, outer in _captures(node).items():
                self.roots[inner] = outer
        uses: dict[Node, int] = {}
        for node in nodes:
            for given in {i for i in node.inputs if not (node.op.bodies() and i in _captures(node).values())}:
                uses[self.root(given)] = uses.get(self.root(given), 0) + 1
        found: set[Node] = set()
        for node in nodes:
            if type(node.op).parameters is Op.parameters:
                continue
            for name, given in self._parameters(node).items():
                weight = self.root(given)
                named = isinstance(weight.op, Param) and weight.op.kind == "weight" and weight.op.name == f"{node.name}.{name}"
                if named and uses[weight] == 1:
                    found.add(weight)
        return found

    def _parameters(self, node: Node) -> dict[str, Node]:
        """The learned operands of a node by name."""
        for count in range(len(node.inputs), -1, -1):
            try:
                learned = node.op.parameters(*(i.type for i in node.inputs[:count]))
            except (ValueError, IndexError, TypeError):
                continue
            if len(learned) == len(node.inputs) - count:
                return dict(zip(learned, node.inputs[count:], strict=True))
        return {}

    # ---- entries -----------------------------------------------------------------------------

    def entry(self, node: Node, key: str, indent: str) -> list[str]:
        shown = ", ".join(map(str, node.results))
        head = f"{indent}{scalar(key)}:"
        op = node.op
        match op:
            case Const():
                return [f"{head} {_constant(op)}  # {shown}"]
            case Scan(body=Graph()):
                return self.scan(node, op, head, indent)
            case While(cond=Graph(), body=Graph()):
                return self.loop(node, op, head, indent)
            case Cond():
                return self.cond(node, op, head, indent)
            case Call():
                inputs = [self.names[i] for i in node.inputs]
                return [f"{head} {{op: {scalar(op.name)}, in: {flow(inputs)}}}  # {shown}"]
        if op.bodies():
            raise _cannot("holds a graph of its own", node)
        learned = self._parameters(node) if type(op).parameters is not Op.parameters else {}
        count = len(node.inputs) - len(learned)
        items: dict[str, Any] = {"op": op.mnemonic}
        inputs = [self.names[i] for i in node.inputs[:count]]
        if inputs:
            items["in"] = inputs[0] if len(inputs) == 1 else inputs
        items.update(_attributes(node))
        items.update({name: self.names[value] for name, value in learned.items() if self.root(value) not in self.made})
        return [f"{head} {flow(items)}  # {shown}"]

    def _body(self, graph: Graph, params: Mapping[Node, str], indent: str, prefix: str) -> tuple[list[str], list[str]]:
        around = self.taken  # a body has names of its own, apart from those that it reads from around it
        self.taken = {part for name in params.values() for part in (name, name.partition(".")[0])}
        lines = self.section(graph, indent + "    ", params, prefix)
        self.taken = around
        head = [f"{indent}  body:", *lines] if lines else [f"{indent}  body: {{}}"]
        return head, [self.names[n] for n in graph.outputs.values()]

    def scan(self, node: Node, op: Scan, head: str, indent: str) -> list[str]:
        body, carries, scanned = op.body, op.carries, op.scanned
        assert isinstance(body, Graph)
        outer = [self.names[i] for i in node.inputs]
        inner = {p: f"c{i}" for i, p in enumerate(body.inputs[:carries])}
        inner |= {p: f"x{i}" for i, p in enumerate(body.inputs[carries : carries + scanned])}
        inner |= dict(zip(body.inputs[carries + scanned :], outer[carries + scanned :], strict=True))
        lines, results = self._body(body, inner, indent, f"{body.name}.")
        sliced = {f"x{i}": name for i, name in enumerate(outer[carries : carries + scanned])}
        kept = [f"{indent}  length: {flow(_plain(op.length))}"] + ([f"{indent}  reverse: true"] if op.reverse else [])
        return [
            f"{head}  # {', '.join(map(str, node.results))}", f"{indent}  scan: {flow(sliced)}", *kept,
            f"{indent}  carry: {flow({f'c{i}': name for i, name in enumerate(outer[:carries])})}", *lines,
            f"{indent}  next: {flow({f'c{i}': name for i, name in enumerate(results[:carries])})}",
            f"{indent}  stack: {flow({f'y{i}': name for i, name in enumerate(results[carries:])})}",
        ]  # fmt: skip

    def loop(self, node: Node, op: While, head: str, indent: str) -> list[str]:
        assert isinstance(op.cond, Graph) and isinstance(op.body, Graph)
        outer = [self.names[i] for i in node.inputs]
        same = _captures(node)
        given = [outer[i] if p in same else f"c{i}" for i, p in enumerate(op.body.inputs)]
        test = self._branch(op.cond, given, indent + "    ", ["holds"])
        lines, results = self._body(op.body, dict(zip(op.body.inputs, given, strict=True)), indent, f"{op.body.name}.")
        kept = [i for i, p in enumerate(op.body.inputs) if p not in same]
        return [
            f"{head}  # {', '.join(map(str, node.results))}", f"{indent}  while:", *test,
            f"{indent}  carry: {flow({f'c{i}': outer[i] for i in kept})}", *lines,
            f"{indent}  next: {flow({f'c{i}': results[i] for i in kept})}",
        ]  # fmt: skip

    def cond(self, node: Node, op: Cond, head: str, indent: str) -> list[str]:
        index, *outer = [self.names[i] for i in node.inputs]
        head = f"{head}  # {', '.join(map(str, node.results))}"
        names = [f"y{i}" for i in range(len(node.results))]
        number = node.inputs[0]
        if [b.name.rpartition(".")[2] for b in op.branches] == ["else", "then"] and isinstance(number.op, Cast):
            lines = [head, f"{indent}  cond: {scalar(self.names[number.inputs[0]])}"]
            for key, branch in zip(("then", "else"), reversed(op.branches), strict=True):
                lines += [f"{indent}  {key}:", *self._branch(branch, outer, indent + "    ", names)]
            return lines
        lines = [head, f"{indent}  cond: {scalar(index)}", f"{indent}  branches:"]
        for branch in op.branches:
            first, *rest = self._branch(branch, outer, indent + "    ", names)
            lines += [f"{indent}  - {first.strip()}", *rest]
        return lines

    def _branch(self, graph: Graph, given: list[str], indent: str, names: list[str]) -> list[str]:
        lines, results = self._body(graph, dict(zip(graph.inputs, given, strict=True)), indent[:-2], f"{graph.name}.")
        return [*lines, f"{indent}outputs: {flow(dict(zip(names, results, strict=True)))}"]


def _captures(node: Node) -> dict[Node, Node]:
    """The inputs of a node's bodies that only pass on what is around them, and what that is."""
    match node.op:
        case Scan(body=Graph() as body, carries=carries, scanned=scanned):
            return dict(zip(body.inputs[carries + scanned :], node.inputs[carries + scanned :], strict=True))
        case While(cond=Graph() as cond, body=Graph() as body):
            outputs = list(body.outputs.values())
            same = [i for i, p in enumerate(body.inputs) if outputs[i] is p]
            if len(same) == len(outputs):
                return {}
            return {graph.inputs[i]: node.inputs[i] for graph in (cond, body) for i in same}
        case Cond(branches=branches):
            return {p: outer for b in branches for p, outer in zip(b.inputs, node.inputs[1:], strict=True)}
    return {}


def _everything(graph: Graph) -> Iterable[Node]:
    for node in graph.nodes():
        yield node
        for body in node.op.bodies():
            yield from _everything(body)


def _cannot(reason: str, node: Node) -> UnsupportedError:
    span = node.origin.span if node.origin else None
    return UnsupportedError(Diagnostic("XL1022", f"{node.op.mnemonic} cannot be written as a spec: it {reason}", span))


def _attributes(node: Node) -> dict[str, Any]:
    """Attributes that differ from their defaults, as a spec writes them."""
    op = node.op
    if isinstance(op, Slice):
        stops = [None if k < 0 and s == -1 else s for s, k in zip(op.stops, op.steps, strict=True)]  # null: to the end
        found: dict[str, Any] = {"starts": _plain(op.starts), "stops": _plain(tuple(stops))}
        return found | ({"steps": list(op.steps)} if any(k != 1 for k in op.steps) else {})
    fields = attributes.adapter(type(op)).model_fields.values()
    defaults = {f.alias: f.default for f in fields}
    return {
        name: _plain(getattr(op, name))
        for name in defaults
        if name and hasattr(op, name) and (getattr(op, name) != defaults[name] or name in ("shape", "dtype", "perm", "axes"))
        and getattr(op, name) is not None
    }  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, Sym):
        return f"${{{value}}}"
    if isinstance(value, DType):
        return str(value)
    return value


def _constant(op: Const) -> str:
    dtype = DType.of(op.value.dtype)
    numbers = op.value.astype(np.float64) if dtype.is_half else op.value
    return flow({"op": "constant", "value": numbers.tolist(), "dtype": str(dtype)})


def _bounds(symbol: Symbol) -> str:
    found = {"min": symbol.min, "max": symbol.max, "opt": symbol.opt, "multiple_of": symbol.multiple_of}
    if symbol.max >= UNBOUNDED:
        del found["max"]
    if symbol.multiple_of == 1:
        del found["multiple_of"]
    return flow(found)
