"""Names and values while a spec is elaborated: scopes, frames of closed bodies, and the values of
entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from xlac.ir.graph import Node
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.report import Fault, Place, Poisoned, nearest
from xlac_sdk.source import Origin


@dataclass(frozen=True, eq=False, slots=True)
class Copies:
    """The values of a block's copies: read as name.0 … name.last; as a tensor, all of them
    stacked.
    """

    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Bundle:
    """Several results by name. `main` is the value of the name itself, where it is used as a
    tensor.
    """

    members: Mapping[str, Value]
    main: Value | None = None
    results: tuple[Value, ...] = ()  # in order, for 'a, b: …'


Value = Node | Copies | Bundle
_PARTS = re.compile(r"(?:\.\w+)+")


class Frame:
    """A closed graph being built. Values captured from outside become inputs: `captured` maps
    them.
    """

    def __init__(self, parent: Frame | None = None) -> None:
        self.parent = parent
        self.captured: dict[Node, Node] = {}

    def within(self, owner: Frame) -> bool:
        """Whether values of another frame can be captured by this one."""
        return self is owner or (self.parent is not None and self.parent.within(owner))

    def bring(self, node: Node, owner: Frame) -> Node:
        """A value of an outer frame, captured by this one. Constants need no input."""
        from xlac.ops.tensor.leaf import Const, Param

        if self is owner:
            return node
        assert self.parent is not None, "a value of a frame that is not around this one"
        outer = self.parent.bring(node, owner)
        if isinstance(outer.op, Const):
            return outer
        if outer not in self.captured:
            name = outer.name or f"captured_{len(self.captured)}"
            self.captured[outer] = Node.of(Param(name=name, type=outer.type), origin=outer.origin)
        return self.captured[outer]


Stack = Callable[[list[Node]], Node]


@dataclass(eq=False)
class Scope:
    """Names and values of one graph. `parent` is the scope around a body; blocks have none."""

    frame: Frame
    constants: Constants
    prefix: str = ""
    parent: Scope | None = None
    values: dict[str, Value | None] = field(default_factory=dict)  # None: already reported
    declared: set[str] = field(default_factory=set)

    def path(self, name: str) -> str:
        """The path of a name of this scope in the model."""
        return self.prefix + name

    def sees(self, name: str) -> bool:
        """Whether a dotted name begins with one declared here or in an enclosing scope."""
        return self._head(name) is not None or (self.parent is not None and self.parent.sees(name))

    def _head(self, name: str) -> str | None:
        if name in self.values or name in self.declared:
            return name
        at = name.rfind(".")
        while at > 0 and _PARTS.fullmatch(name, at):
            if (head := name[:at]) in self.values or head in self.declared:
                return head
            at = name.rfind(".", 0, at)
        return None

    def visible(self) -> list[str]:
        """All visible names, for suggestions."""
        outer = self.parent.visible() if self.parent else []
        return [*self.values, *(d for d in self.declared if d not in self.values), *outer]

    def lookup(self, name: str, place: Place, at: tuple[int, int] = (0, 0)) -> Value:
        """The value of a name, captured by this scope's frame. Raises Fault, or Poisoned."""
        span = place.inside(*at) if at[1] else place.span
        scope: Scope | None = self
        while scope is not None:
            if (head := scope._head(name)) is not None:
                value = scope.values.get(head)
                if value is None:
                    raise Poisoned
                rest = name[len(head) + 1 :]
                if isinstance(value, Bundle) and rest in value.members:
                    value, rest = value.members[rest], ""
                for part in rest.split(".") if rest else ():
                    value = member(value, part, head, name, place, at)
                return self._bring(value, scope.frame)
            scope = scope.parent
        raise Fault("XL2002", f"unknown value {name!r}", span, nearest(name, self.visible()))

    def _bring(self, value: Value, owner: Frame) -> Value:
        if self.frame is owner:
            return value
        if isinstance(value, Node):
            return self.frame.bring(value, owner)
        if isinstance(value, Copies):
            return Copies(tuple(self._bring(item, owner) for item in value.items))
        # inside a body only the main result of a bundle is captured
        if isinstance(value.main, Node):
            return self.frame.bring(value.main, owner)
        return Bundle(
            {k: self._bring(v, owner) for k, v in value.members.items()},
            self._bring(value.main, owner) if value.main is not None else None,
        )


def member(
    value: Value, part: str, head: str, name: str, place: Place, at: tuple[int, int]
) -> Value:
    """Result `part` of a value. Raises Fault."""
    if isinstance(value, Copies):
        known = [str(i) for i in range(len(value.items))]
        if part == "last" and value.items:
            return value.items[-1]
        if part.isdigit() and int(part) < len(value.items):
            return value.items[int(part)]
        kind = f"copies 0 to {len(known) - 1} and 'last'"
    elif isinstance(value, Bundle):
        if part in value.members:
            return value.members[part]
        known = list(value.members)
        kind = (
            "results " + ", ".join(k for k in known if not k.isdigit() and k != "last")
            if known
            else "no results"
        )
    else:
        known, kind = [], "one result, without a name"
    span = place.inside(*at) if at[1] else place.span
    hint = nearest(part, known) if known and not part.isdigit() else ""
    raise Fault("XL2002", f"{name!r}: there is no {part!r}; {head!r} has {kind}", span, hint)


def tensor(
    value: Value, name: str, place: Place, stack: Stack, at: tuple[int, int] = (0, 0)
) -> Node:
    """A value as a tensor; copies are stacked on a new first axis. Raises Fault."""
    while isinstance(value, Bundle):
        if value.main is None:
            known = ", ".join(f"{name}.{k}" for k in list(value.members)[:6])
            span = place.inside(*at) if at[1] else place.span
            raise Fault(
                "XL2012",
                f"{name!r} has {len(value.members)} results; say which",
                span,
                f"known: {known}",
            )
        value = value.main
    if isinstance(value, Copies):
        items = [tensor(item, name, place, stack, at) for item in value.items]
        if any(item.type != items[0].type for item in items):
            span = place.inside(*at) if at[1] else place.span
            raise Fault(
                "XL2012",
                f"the copies of {name!r} differ in type and cannot be stacked",
                span,
                f"say which one: {name}.0, {name}.last",
            )
        return stack(items)
    return value


def in_order(
    keys: Iterable[str], needs: Mapping[str, Iterable[str]], cycles: list[list[str]]
) -> Iterator[str]:
    """Keys in topological order of `needs`; the given order is kept where possible.

    Keys on a cycle are included; `cycles` gets each cycle once.
    """
    state: dict[str, int] = {}  # 1: being visited, 2: done
    for root in keys:
        stack = [(root, iter(needs.get(root, ())))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            key, rest = stack[-1]
            for other in rest:
                if other not in state:
                    state[other] = 1
                    stack.append((other, iter(needs.get(other, ()))))
                    break
                if state[other] == 1:
                    trail = [k for k, _ in stack]
                    cycles.append([*trail[trail.index(other) :], other])
            else:
                stack.pop()
                state[key] = 2
                yield key


def origin(scope: Scope, name: str, place: Place, at: tuple[int, int] = (0, 0)) -> Origin:
    """The origin of a node in this scope."""
    return Origin(scope.path(name), place.inside(*at) if at[1] else place.key)
