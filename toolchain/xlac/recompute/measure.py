"""States a partition as a scheduling problem: groups are tasks, values in the arena are buffers.

The scratch memory of a group is that of the memory plan without recomputation; its cost is
estimated from the operations and bytes of its kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlac.fusion import cost
from xlac.fusion.cluster import is_fusible
from xlac.fusion.group import WITHOUT_KERNELS, Group, Kind, Partition
from xlac.fusion.partition import is_alias
from xlac.ir.dims import bounds
from xlac.ir.graph import Node
from xlac.memory.arena import ALIGN
from xlac.memory.places import Lowerings, Readers
from xlac.ops import cost as work
from xlac.ops.control.effect import CustomCall
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.recompute.order import reordered
from xlac.recompute.phases import Phases, phases
from xlac.recompute.problem import Problem, StateUpdate, Task
from xlac_sdk.target import Target

PRODUCT_BYTES = 0.06  # bytes moved in the time of one floating-point operation of a matrix product
PRODUCTS = (Kind.DOT, Kind.CONV, Kind.ATTENTION)


@dataclass
class Measured:
    """A problem, and the group of each task: the required ones, then parts of them. `buffers` are
    the values by buffer number; `aliases`, groups that only rename a value, by their result.
    """

    problem: Problem
    groups: list[Group]
    aliases: dict[Node, Group]
    buffers: list[Node]


def measured(
    partition: Partition,
    lowerings: Lowerings,
    target: Target,
    state: Mapping[str, str],
    scratch: Sequence[int],
) -> Measured:
    """The problem of a partition. `state` maps state tensors to the outputs that are their next
    values; `scratch` is the scratch memory of each group in bytes.
    """
    return _Measuring(partition, lowerings, target, state, scratch).measured()


def in_order(whole: Measured, order: Sequence[int]) -> Measured:
    """A measured partition with its required tasks in another order."""
    groups = [whole.groups[number] for number in order] + whole.groups[len(order) :]
    return replace(whole, problem=reordered(whole.problem, order), groups=groups)


@dataclass
class _Measuring:
    partition: Partition
    lowerings: Lowerings
    target: Target
    state: Mapping[str, str]
    scratch: Sequence[int]
    buffer: dict[Node, int] = field(default_factory=dict)
    nbytes: list[int] = field(default_factory=list)

    def measured(self) -> Measured:
        partition, readers = self.partition, Readers.of(self.partition, self.lowerings)
        self.value = readers.value
        outputs = partition.graph.outputs
        hidden = {output for name, output in self.state.items() if output == f"{name}.next"}
        given = {self.value(node) for name, node in outputs.items() if name not in hidden}
        following = {name: self.value(outputs[output]) for name, output in self.state.items()}
        elsewhere = given | set(following.values())  # outputs and state are not in the arena
        groups = [group for group in partition.groups if not is_alias(group)]
        aliases = {g.outputs[0]: g for g in partition.groups if is_alias(g)}
        for group in groups:
            for output in group.outputs:
                self.buffer[output] = len(self.nbytes)
                self.nbytes.append(0 if output in elsewhere else _nbytes(output))
        numbers = {group: n for n, group in enumerate(partition.groups)}
        tasks = [self.task(group, self.scratch[numbers[group]]) for group in groups]
        parts = [(at, part) for at, group in enumerate(groups) for part in self.parts(group)]
        tasks += [self.task(part, 0, at) for at, part in parts]
        producers = {output: at for at, group in enumerate(groups) for output in group.outputs}
        updates = []
        for name, node in following.items():
            if node in producers and node not in given:
                own = any(
                    o is node and isinstance(i.op, Param) and i.op.name == name
                    for o, i in self.in_place(groups[producers[node]])
                )
                update = StateUpdate(self.number(name), producers[node], _nbytes(node), own)
                updates.append(update)
        problem = Problem(tuple(tasks), len(groups), tuple(self.nbytes), tuple(updates))
        buffers = sorted(self.buffer, key=self.buffer.__getitem__)
        return Measured(problem, [*groups, *(part for _, part in parts)], aliases, buffers)

    def number(self, name: str) -> int:
        """The number of a state tensor."""
        return list(self.state).index(name)

    def task(self, group: Group, scratch: int, part_of: int = -1) -> Task:
        """The task of a group, or of a part of the required task `part_of`."""
        values = [self.value(i) for i in group.inputs]
        reads = [self.buffer[v] for v in values if v in self.buffer]
        states = [v.op.name for v in values if isinstance(v.op, Param) and v.op.name in self.state]
        pairs = (
            [
                (self.buffer[o], self.buffer[i])
                for o, i in self.in_place(group)
                if i in self.buffer and self.nbytes[self.buffer[o]]
            ]
            if part_of < 0
            else []
        )
        inside = (
            self.phases(group, {b for pair in pairs for b in pair}) if part_of < 0 else Phases()
        )
        return Task(
            self.cost(group, part_of < 0),
            tuple(dict.fromkeys(reads)),
            tuple(self.buffer[output] for output in group.outputs),
            scratch - inside.late,
            sum(_nbytes(o) for o in group.outputs if not self.nbytes[self.buffer[o]]),
            tuple(pairs),
            tuple(self.number(name) for name in dict.fromkeys(states)),
            _repeatable(group),
            part_of,
            None if inside.operand is None else (inside.operand, inside.freed),
        )

    def phases(self, group: Group, shared: set[int]) -> Phases:
        """What a group needs between its kernels. Buffers `shared` by a result and an operand are
        there all the time.
        """
        if group.kind in WITHOUT_KERNELS:
            return Phases()
        values = {node: self.value(node) for node in group.inputs}
        reads = {n: self.buffer[v] for n, v in values.items() if v in self.buffer}
        reads = {n: b for n, b in reads.items() if b not in shared}
        writes = {o: b for o in group.outputs if (b := self.buffer[o]) not in shared}
        return phases(self.lowerings[group], reads, writes, self.nbytes)

    def in_place(self, group: Group) -> Iterable[tuple[Node, Node]]:
        """Pairs of an output and an input that may share memory."""
        if group.kind in WITHOUT_KERNELS:
            return ()
        values = [self.value(i) for i in group.inputs]
        pairs = self.lowerings[group].in_place
        return [(o, self.value(i)) for o, i in pairs if values.count(self.value(i)) == 1]

    def cost(self, group: Group, lowered: bool) -> float:
        """The estimated time of a group, in bytes that could be moved in it. `lowered`: its kernels
        are known.
        """
        launch = cost.launch_bytes(self.target)
        rate = PRODUCT_BYTES if group.kind in PRODUCTS else cost.operation_bytes(self.target)
        if group.kind in WITHOUT_KERNELS:
            done = work.cost(group.anchor)
            return done.flops * rate + done.read + done.written + launch
        if not lowered or (lowered_group := self.lowerings[group]).call is not None:
            whole = cost.work(group)
            return whole.flops * rate + whole.bytes + launch
        works = [each.kernel.work for each in lowered_group.launches]
        return sum(one.flops * rate + one.bytes + launch for one in works)

    # ---- parts of groups ---------------------------------------------------------------------

    def parts(self, group: Group) -> list[Group]:
        """Groups that compute one output of a group from its inputs and other outputs by
        elementwise operations alone: cheaper than recomputing the whole group.
        """
        if len(group.outputs) < 2 or group.kind in WITHOUT_KERNELS:
            return []
        parts = []
        for output in group.outputs:
            if not self.nbytes[self.buffer[output]] or not _is_elementwise(output):
                continue
            nodes = _slice(group, output)
            if nodes:
                inputs = dict.fromkeys(i for n in nodes for i in n.inputs if i not in nodes)
                reason = f"{output.op.mnemonic} alone; a part of what the kernel before computes"
                parts.append(
                    Group(Kind.ELEMENTWISE, output, tuple(nodes), tuple(inputs), (output,), reason)
                )
        return parts


def _is_elementwise(node: Node) -> bool:
    return is_fusible(node) or isinstance(node.op, Const | Iota)


def _slice(group: Group, output: Node) -> dict[Node, None] | None:
    """The nodes of a group that compute an output from its inputs and other outputs, in order; None
    where one of them is neither elementwise nor a view.
    """
    wanted, stack = {output}, [output]
    others = set(group.outputs) - {output}
    while stack:
        for i in stack.pop().inputs:
            if i in group.members and i not in others and i not in wanted:
                if not _is_elementwise(i):
                    return None
                wanted.add(i)
                stack.append(i)
    return {node: None for node in group.nodes if node in wanted}


def _repeatable(group: Group) -> bool:
    """Whether a second run of a group has the same results: calls of foreign code need not."""
    return group.kind not in (Kind.CLAIMED, Kind.COLLECTIVE) and not any(map(_foreign, group.nodes))


def _foreign(node: Node) -> bool:
    return isinstance(node.op, CustomCall) or any(
        _foreign(inner) for body in node.op.bodies() for inner in body.nodes()
    )


def _nbytes(node: Node) -> int:
    """Bytes of a value in the arena, rounded up to its alignment, at the largest open sizes."""
    size = node.type.size
    nbytes = (size if isinstance(size, int) else bounds(size)[1]) * node.type.dtype.nbytes
    return -(-nbytes // ALIGN) * ALIGN
