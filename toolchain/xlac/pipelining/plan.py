"""A micro-batch in phases: what one rank computes of it without waiting for another, and the values
that phases pass on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlac.ir.graph import Node
from xlac.model import Model
from xlac.placement.cut import nbytes
from xlac_sdk.source import Diagnostic, UnsupportedError


@dataclass(frozen=True, slots=True, eq=False)
class PipelineValue:
    """A value that a phase gives others, on its rank or elsewhere; `ends` are the ranks that have
    it when all is done: outputs, and the next values of states that several ranks hold.
    """

    name: str
    node: Node
    source: int  # the phase that computes it
    readers: tuple[int, ...]
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """Part `turn` of what a stage computes of a micro-batch, such as its forward pass. `reads` and
    `writes` have the numbers of values by the names that the phase's model has for them; `inputs`
    are those of callers. States of `late` get a value after the phase, as the phase still reads
    what they were.
    """

    number: int
    stage: int
    rank: int  # along the axis of stages
    turn: int
    model: Model
    inputs: tuple[str, ...]
    reads: Mapping[str, int]
    writes: Mapping[str, int]
    takes: frozenset[str]  # states that it reads
    gives: frozenset[str]  # states that have another value after it
    late: Mapping[str, int]
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """What a rank sends another after a phase: values by their numbers."""

    source: int
    rank: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PhasePlan:
    """A micro-batch in phases, in the order of one that is alone. `outputs` has the value of each
    output; `copied` for each rank the states that it holds beside the rank that changes them, with
    their next values.
    """

    whole: Model
    ranks: int
    phases: tuple[Phase, ...]
    values: Mapping[int, PipelineValue]
    outputs: Mapping[str, int]
    copied: Sequence[Mapping[str, int]]
    messages: tuple[Message, ...]

    def rank_of(self, value: int) -> int:
        """The rank that computes a value."""
        return self.phases[self.values[value].source].rank

    def nbytes(self, message: Message) -> int:
        """The bytes of a message."""
        return sum(nbytes(self.values[number].node) for number in message.values)

    def readers(self, value: int, rank: int) -> list[int]:
        """The phases of a rank that read a value."""
        return [n for n in self.values[value].readers if self.phases[n].rank == rank]


def refuse_copies(plan: PhasePlan) -> None:
    """Raises UnsupportedError for a model of which several run at once, where a rank has to be told
    the state that another changes.
    """
    for rank, copied in enumerate(plan.copied):
        for name in copied:
            problem = f"each micro-batch changes '{name}', which stage {rank} reads too"
            raise UnsupportedError(Diagnostic("XL7841", problem))
