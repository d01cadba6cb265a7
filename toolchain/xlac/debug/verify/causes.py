"""Finds why a value is wrong: a race, a stale entry of the cache, memory overwritten too early,
weights packed wrongly, a kernel, the backend, or a pass; tried in the order in which one would hide
another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from xlac.codegen.core.lowered_group import PackedConstant
from xlac.debug.bisect import bisect
from xlac.debug.blame import GroupSearch, Values
from xlac.debug.compare import ComparedModel
from xlac.debug.verify.nodes import GroupJudge, JudgedNode, handed
from xlac.debug.verify.races import backwards, order_matters
from xlac.debug.verify.subject import VerifiedProgram, built_anew, ran, same_bits
from xlac.debug.verify.taps import Tapped, tapped
from xlac.driver import executable
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac_sdk.programs.program import Copy, Launch, Program, Role, Slot, arguments
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError

Tell = Callable[[str], None]
RUNS = 3  # runs that must be bitwise equal


@dataclass(eq=False)
class CauseSearch:
    """Finds the fault in a program, given inputs (including first states) that show it."""

    program: VerifiedProgram
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]  # outputs of the program
    tell: Tell = lambda line: None

    def unsound(self) -> list[str]:
        """Invalid kernels and memory plans, found without running the program."""
        try:
            verify_program(self.program.lowered.program)
        except VerifyError as error:
            return [f"the program does not verify: {error}"]
        return []

    def unsteady(self) -> list[str]:
        """Races: repeated calls differ, or a call with parallel loops in reverse order does."""
        program = self.program
        for _ in range(RUNS - 1):
            again = ran(program.compiled, self.inputs)
            for name, array in self.outputs.items():
                if not same_bits(array, again[name]):
                    return [f"a race: output '{name}' differs from run to run{self._racing()}"]
        turned = backwards(program.lowered.program)
        if turned is not None:
            lowered = replace(program.lowered, program=turned)
            again = ran(executable(lowered, program.backend), self.inputs)
            for name, array in self.outputs.items():
                if not same_bits(array, again[name]):
                    order = "when parallel loops run from their end"
                    return [f"a race: output '{name}' differs {order}{self._racing()}"]
        return []

    def _racing(self) -> str:
        """The kernels that the interpreter finds to depend on the order of iterations."""
        kernels = [k.name for k in self.program.lowered.program.kernels if order_matters(k)]
        return f": kernel {', '.join(kernels)}" if kernels else ""

    def stale(self) -> list[str]:
        """Code in the cache under the program's key that differs from freshly compiled code."""
        pairs = [(self.program.compiled, self.program.lowered)]
        if isinstance(self.program.taps, Tapped) and self.program.with_taps is not None:
            lowered = replace(self.program.lowered, program=self.program.taps.program)
            pairs.append((self.program.with_taps, lowered))
        for compiled, lowered in pairs:
            if compiled.artifact is None:
                continue
            kept, fresh = (
                ran(one, self.inputs)
                for one in (compiled, built_anew(lowered, self.program.backend))
            )
            if any(not same_bits(array, fresh[name]) for name, array in kept.items()):
                what = "holds code that gives other results than what is compiled now"
                where = f"a stale entry of the cache: {compiled.artifact}"
                return [f"{where} {what}; remove it (`xlac cache clear`)"]
        return []

    def of_node(self, judge: GroupJudge, wrong: JudgedNode) -> list[str]:
        """Why a group is wrong, given the values that it read."""
        if early := self.overwritten(wrong):
            return early
        group, subject = wrong.group, self.subject()
        if group.kind is Kind.CONTROL:
            group = with_literals(group, judge.weights)
        values: Values = {n: (np.asarray(judge.value(n)),) for n in group.inputs}
        if packed := self.packed(judge, wrong, subject):
            return packed
        kernels = [one.kernel for one in self.program.lowered.schedules(wrong.group).launches]
        racing = [k.name for k in kernels if order_matters(k)]
        if racing:
            order = "its result depends on the order in which iterations of its parallel loop run"
            return [f"a race in kernel {', '.join(racing)}: {order}"]
        blame = GroupSearch(subject, judge.weights, self.tell).group(group, values)
        if blame is not None:
            return [str(blame)]
        if suspects := self.stale() or self.unsteady():
            return suspects
        rest = "the steps around it, or how the program's host code passes its arguments"
        return [f"{wrong.name} is right alone: {rest}"]

    def overwritten(self, wrong: JudgedNode) -> list[str]:
        """Values in the arena that a group reads, and that were overwritten since they were
        computed.
        """
        tapped_program = tapped(self.program.lowered, reads=True)
        if isinstance(tapped_program, str):
            return []
        lowered = replace(self.program.lowered, program=tapped_program.program)
        out = ran(executable(lowered, self.program.backend), self.inputs)
        for (number, node), name in tapped_program.before.items():
            after = tapped_program.after.get(node)
            if number <= wrong.number and after and not same_bits(out[after], out[name]):
                reader = self.program.lowered.partition.groups[number]
                return [_overwritten(tapped_program.program, node, reader, after, name)]
        return []

    def packed(self, judge: GroupJudge, wrong: JudgedNode, subject: ComparedModel) -> list[str]:
        """Weights that are packed wrongly: the group is right when it reads them unpacked."""
        search = GroupSearch(subject, judge.weights, self.tell)
        group = wrong.group
        if group.kind is Kind.CONTROL:
            return []
        lowered = self.program.lowered.schedules(group)
        packings = [
            value
            for launch in lowered.launches
            for value in launch.arguments
            if isinstance(value, PackedConstant) and value.sources
        ]
        if not packings:
            return []
        values: Values = {n: (np.asarray(judge.value(n)),) for n in group.inputs}
        if search.group(group, values) is None or not search.handed(group, values):
            return []
        names = ", ".join(dict.fromkeys(s.name for p in packings for s in p.sources))
        fine = f"the kernel of {wrong.name} is right on {names} as they are"
        return [f"wrong packed weights: {fine}; look at how they are packed ({packings[0].key})"]

    def subject(self) -> ComparedModel:
        """The model, the inputs and the target, for bisection and blame."""
        program = self.program
        return ComparedModel(program.model, self.inputs, program.target, program.backend)

    def of_passes(self) -> list[str]:
        """The rewrite that changed the results of the graph."""
        subject = self.subject()
        culprit = bisect(lambda trace: subject.interpreted(trace).right, self.tell)
        return [] if culprit is None else [f"a pass: {culprit}"]


def with_literals(group: Group, weights: Mapping[str, Array]) -> Group:
    """A group whose loops and branches have constants in place of the weights that they read."""
    new: dict[Node, Node] = {}
    for node in group.nodes:
        values = handed(node, weights)
        new[node] = replace(values, inputs=tuple(new.get(i, i) for i in values.inputs))
    return Group(
        group.kind,
        new[group.anchor],
        tuple(new.values()),
        group.inputs,
        tuple(new[n] for n in group.outputs),
        group.reason,
    )


def _overwritten(program: Program, node: Node, reader: Group, after: str, name: str) -> str:
    """The message for a value that was overwritten, naming the steps that wrote to its memory."""
    steps = list(program.steps)
    ends = {s.target.slot.name: n for n, s in enumerate(steps) if isinstance(s, Copy)}
    source = steps[ends[name]]
    assert isinstance(source, Copy)
    slot = source.source.slot
    writers = []
    for step in steps[ends[after] : ends[name]]:
        if isinstance(step, Copy) and step.target.slot.role is Role.OUTPUT:
            continue
        if any(_overlap(slot, a.slot) for a in arguments((step,))):
            writers.append(step.kernel.name if isinstance(step, Launch) else "a step")
    by = f", by {', '.join(dict.fromkeys(writers))}" if writers else ""
    title = node.origin or node.op.mnemonic
    read = next((str(n.origin) for n in reader.nodes if n.origin), reader.anchor.op.mnemonic)
    return (
        f"a wrong lifetime: the memory of {title} ('{slot.symbol}', {slot.nbytes} bytes at "
        f"{slot.offset}) is overwritten before {read} reads it{by}"
    )


def _overlap(a: Slot, b: Slot) -> bool:
    if a.role is not b.role or a.role is not Role.TEMPORARY:
        return a is b
    return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
