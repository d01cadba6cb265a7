"""Writes the entries of one graph: a name for every node, and its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xlac.exporters.spec import control
from xlac.exporters.spec.learned import Learned, is_weight, parameters
from xlac.exporters.spec.names import Names, clean
from xlac.exporters.spec.values import (
    adapts,
    attributes_of,
    body_of,
    constant,
    is_short,
    number,
    plain,
)
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.control.custom_op import CustomOp
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast
from xlac.spec.text.write import flow, scalar, type_text
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, UnsupportedError

# decides whether a constant is stored in a file under a name, instead of written inline
Keep = Callable[[str, Array], bool]


@dataclass(eq=False)
class Book:
    """State shared by all sections of a spec."""

    learned: Learned
    keep: Keep
    # operations of the user, declared elsewhere
    called: frozenset[str] = frozenset()


@dataclass(eq=False)
class Section:
    """One graph being written. `names` has the names of its inputs; `prefix` begins the paths of
    its entries.
    """

    book: Book
    graph: Graph
    prefix: str
    names: dict[Node, str]
    taken: Names = field(default_factory=Names)
    inside: bool = False  # True for bodies, whose weights are learned by the outermost graph

    def __post_init__(self) -> None:
        self.order = [
            n for n in self.graph.nodes() if n not in self.names and n not in self.book.learned
        ]
        self.users: dict[Node, int] = {}
        for node in (
            *(i for n in self.graph.nodes() for i in n.inputs),
            *self.graph.outputs.values(),
        ):
            self.users[node] = self.users.get(node, 0) + 1
        self.picks: dict[Node, dict[int, list[Node]]] = {}
        for node in self.order:
            if isinstance(node.op, Pick):
                self.picks.setdefault(node.inputs[0], {}).setdefault(node.op.index, []).append(node)
        # operands in their short form, by node
        self.operands: dict[Node, list[Node | int | float]] = {}
        self.folded: set[Node] = set()
        self.keys: dict[Node, list[str]] = {}  # of the entries, once they are written
        for node in self.order:
            self._fold(node)

    def nested(self, graph: Graph, prefix: str, names: dict[Node, str]) -> Section:
        """The section of a nested graph, whose inputs have these names."""
        return Section(self.book, graph, prefix, names, Names(names.values()))

    def lines(self, indent: str) -> list[str]:
        """Every entry."""
        keepers = self._keepers()
        # those with members first
        keys = self.keys = {
            node: self._key(node, keepers) for node in self.order if control.members(self, node)
        }
        lines: list[str] = []
        for node in weights_first(self.order):
            if isinstance(node.op, Pick) or node in self.folded:
                continue
            if isinstance(node.op, Param) and not is_weight(node):
                raise cannot("is an input that its graph does not list", node)
            if node not in keys:
                keys[node] = [self.names[node]] if node in self.names else self._key(node, keepers)
            lines += self._entry(node, keys[node], indent)
        return lines

    # ---- names -------------------------------------------------------------------------------

    def local(self, node: Node) -> str:
        """The name of a node in this section."""
        return (
            node.name.removeprefix(self.prefix) if node.name.startswith(self.prefix) else node.name
        )

    def _keepers(self) -> dict[str, Node]:
        """For nodes that share a name, the one that keeps it: one with nested names or learned
        weights, else the last.
        """
        keepers: dict[str, Node] = {}
        strong: set[str] = set()
        for node in self.order:
            names = bool(node.op.bodies()) or any(i in self.book.learned for i in node.inputs)
            if (
                not isinstance(node.op, Pick)
                and node not in self.folded
                and (names or node.name not in strong)
            ):
                keepers[node.name] = node
                strong |= {node.name} if names else set()
        return keepers

    def _key(self, node: Node, keepers: Mapping[str, Node]) -> list[str]:
        """The names of an entry, one for each result of an operation; picks of the results are
        named too.
        """
        members = control.members(self, node)
        if len(node.results) > 1 and not members:
            return self._results(node)
        if node.name:
            key = self.taken.one(clean(self.local(node)), keepers[node.name] is node, members)
        else:
            key = self.taken.plain(clean(node.op.mnemonic))
        self.names[node] = key
        for index, picks in self.picks.get(node, {}).items():
            self.names.update(dict.fromkeys(picks, f"{key}.{members[index]}"))
        return [key]

    def _results(self, node: Node) -> list[str]:
        picks = [self.picks.get(node, {}).get(index, []) for index in range(len(node.results))]
        own = {read[0].name for read in picks if read}
        keys = []
        for read in picks:
            local = self.local(read[0] if read else node)
            whole = bool(read) and (len(own) > 1 or not any(p.name == node.name for p in read))
            keys.append(
                self.taken.one(clean(local), whole)
                if local
                else self.taken.plain(clean(node.op.mnemonic))
            )
            self.names.update(dict.fromkeys(read, keys[-1]))
        return keys

    def origin(self, node: Node, keys: list[str]) -> str | list[str] | None:
        """The value of `from` that restores the names of an entry's nodes; None where its keys
        do.
        """
        read = self.picks.get(node, {})
        wanted = (
            [node.name]
            if len(keys) == 1
            else [read[i][0].name if i in read else "" for i in range(len(keys))]
        )
        given = [self.prefix + (key.rpartition("~")[0] or key) for key in keys]
        if all(want in ("", give) for want, give in zip(wanted, given, strict=True)):
            return None
        return (
            wanted[0]
            if len({*wanted} - {""}) == 1 and wanted[0]
            else [want or give for want, give in zip(wanted, given, strict=True)]
        )

    # ---- short operands ----------------------------------------------------------------------

    def _fold(self, node: Node) -> None:
        """Omits constants and broadcasts that the spec's reader would insert again, and only
        those.
        """
        if isinstance(node.op, Cond) and control.is_flag(node) and self._only(node.inputs[0], node):
            self.folded.add(node.inputs[0])
        if node.op.bodies() or isinstance(node.op, Pick) or parameters(node):
            return
        short: list[Node | int | float] = []
        gone: list[Node] = []
        for given in node.inputs:
            inner, seen = self._stripped(given, node)
            short.append(inner)
            gone += seen
        if gone and is_short(node, short):
            self.operands[node] = short
            self.folded |= {*gone}

    def _stripped(self, given: Node, user: Node) -> tuple[Node | int | float, list[Node]]:
        """An operand without its broadcast, as a number where it is a scalar constant; and the
        nodes that are omitted thereby.
        """
        gone = []
        if isinstance(given.op, Broadcast) and self._only(given, user):
            gone, given = [given], given.inputs[0]
        value = number(given) if isinstance(given.op, Const) and self._only(given, user) else None
        return (given, gone) if value is None else (value, [*gone, given])

    def _only(self, node: Node, user: Node) -> bool:
        return node not in self.names and self.users[node] == 1 and node.name == user.name

    # ---- entries -----------------------------------------------------------------------------

    def _entry(self, node: Node, keys: list[str], indent: str) -> list[str]:
        key, origin = ", ".join(keys), self.origin(node, keys)
        head, shown = f"{indent}{scalar(key)}:", ", ".join(map(str, node.results))
        path = self.prefix + keys[0]
        match node.op:
            case Param():
                return [f"{head} {flow(self._weight(node, key))}"]
            case Const():
                return [f"{head} {flow(self._constant(node.op.value, path, origin))}  # {shown}"]
            case Scan() | While() | BoundedWhile() | Cond():
                if isinstance(node.op, BoundedWhile) and self.book.learned.read.get(node, 0) > len(
                    node.inputs
                ):
                    raise cannot("counts its steps or stacks what they yield", node)
                named = [f"{indent}  from: {flow(origin)}"] if origin else []
                return [
                    f"{head}  # {shown}",
                    *control.lines(self, node, path, indent + "  "),
                    *named,
                ]
        items = self._operation(node)
        if (body := body_of(node.op)) is None or items["op"] in self.book.called:
            return [f"{head} {flow(items | ({'from': origin} if origin else {}))}  # {shown}"]
        rows = [
            f"{indent}  {name}: {flow(value)}"
            for name, value in (items | ({"from": origin} if origin else {})).items()
        ]
        return [
            f"{head}  # {shown}",
            *rows,
            f"{indent}  body:",
            *control.function(self, body, f"{path}.body.", indent + "    "),
        ]

    def _operation(self, node: Node) -> dict[str, Any]:
        op, learned = node.op, parameters(node)
        if op.bodies() and body_of(op) is None:
            raise cannot("holds a graph of its own", node)
        if isinstance(op, Call | CustomOp) and op.name in self.book.called:
            given = op.attributes if isinstance(op, CustomOp) else ()
            own = {name: str(v) if isinstance(v, DType) else v for name, v in given}
            return {"op": op.name, "in": [self.names[i] for i in node.inputs], **own}
        operands = self.operands.get(node, list(node.inputs[: len(node.inputs) - len(learned)]))
        exact = adapts(op) and not is_short(node, operands)
        entry: dict[str, Any] = {"op": op.mnemonic}
        texts = [self.names[i] if isinstance(i, Node) else i for i in operands]
        if texts:
            entry["in"] = texts[0] if len(texts) == 1 else texts
        try:
            entry.update({name: plain(value) for name, value in attributes_of(op, exact).items()})
        except TypeError as error:
            raise cannot(str(error), node) from None
        entry.update(
            {
                name: self.names[value]
                for name, value in learned.items()
                if value not in self.book.learned
            }
        )
        return entry | ({"exact": True} if exact else {})

    def _weight(self, node: Node, key: str) -> dict[str, Any]:
        assert isinstance(node.op, Param)
        entry = {"op": "weight", "type": type_text(node.type)}
        return entry if key == node.op.name else entry | {"from": node.op.name}

    def _constant(self, value: Array, path: str, origin: Any) -> dict[str, Any]:
        named = {"from": origin} if origin else {}
        if self.book.keep(path, value):
            return {"op": "constant", "type": type_text(Node.of(Const(value)).type), **named}
        return {"op": "constant", **constant(value), **named}


def cannot(reason: str, node: Node) -> UnsupportedError:
    """The error for a node that a spec cannot express."""
    span = node.origin.span if node.origin else None
    return UnsupportedError(
        Diagnostic("XL1022", f"{node.op.mnemonic} cannot be written as a spec: {reason}", span)
    )


def weights_first(order: Iterable[Node]) -> list[Node]:
    """The weights, then everything else, each in order."""
    nodes = list(order)
    return [*filter(is_weight, nodes), *(n for n in nodes if not is_weight(n))]
