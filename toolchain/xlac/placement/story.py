"""Explains how a model is cut: which nodes are where, which values cross, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator

from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac.placement.cut import bytes_of
from xlac.placement.stage_models import StagedModel, StageModel
from xlac_sdk.support.counts import number_of


def tell_cut(model: StagedModel) -> str:
    """A line for each stage with its nodes, and one for each value that it gives to others; state
    that the host holds; and all bytes that cross in a call.
    """
    targets = dict.fromkeys(stage.target for stage in model.stages)
    lines = [f"{number_of(len(model.stages), 'stage')} on {', '.join(targets)}"]
    for number, stage in enumerate(model.stages):
        lines.append(f"stage {number + 1} on {stage.target}: {', '.join(_paths(stage))}")
        lines += _given(model, number)
    for state in model.held:
        lines.append(f"state {state.name} is held by the host: {_amount(state.type)}")
    crossing = [value for value in model.passed.values() if value.readers]
    copies = sum(bytes_of(value.type) * len(value.readers) for value in crossing)
    copies += sum(2 * bytes_of(state.type) for state in model.held)
    most = " at most" if any(not _fixed(value.type) for value in crossing) else ""
    lines.append(
        f"in all {number_of(len(crossing), 'value crosses', 'values cross')}, and stages read "
        f"{copies:,} bytes{most} a call that others wrote, through the memory of the host"
    )
    return "\n".join(lines)


def _paths(stage: StageModel) -> list[str]:
    """The paths of a stage's nodes, each once."""
    nodes = (n for n in stage.model.graph.order if n.inputs and not isinstance(n.op, Pick))
    return list(dict.fromkeys(node.name or node.op.mnemonic for node in nodes)) or ["no nodes"]


def _given(model: StagedModel, stage: int) -> Iterator[str]:
    for value in model.passed.values():
        if value.source == stage and value.readers:
            readers = [f"{n + 1} ({model.stages[n].target})" for n in value.readers]
            word = "stage" if len(readers) == 1 else "stages"
            yield f"    {value.name}: {_amount(value.type)}, to {word} {', '.join(readers)}"


def _amount(type: Type) -> str:
    return f"{type}, {bytes_of(type):,} bytes{'' if _fixed(type) else ' at most'}"


def _fixed(type: Type) -> bool:
    return all(isinstance(size, int) for size in type.shape)
