"""Explains how a model is cut: which nodes are where, which values cross, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator

from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac.placement.arrange import Arranged
from xlac.placement.call_order import StageStart
from xlac.placement.cut import bytes_of
from xlac.placement.stage_models import StagedModel, StageModel
from xlac.placement.timeline import CopySpan, Timeline
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


def tell_order(model: StagedModel, found: Arranged) -> str:
    """A line for each stage and each copy of a call, in the order of their predicted beginnings:
    when it begins and how long it takes; for a copy, behind which stages it is hidden. Then the
    times of the whole call, and of all copies.
    """
    times, names = found.times, _value_names(model)
    lines: list[tuple[float, str]] = []
    thread_of = {
        step.stage: number
        for number, steps in enumerate(found.order.threads)
        for step in steps
        if isinstance(step, StageStart)
    }
    for number, span in times.stages.items():
        text = f"stage {number + 1} on {model.stages[number].target}, {microseconds(span.seconds)}"
        beside = f", in thread {thread_of[number] + 1}" if len(found.order.threads) > 1 else ""
        lines.append((span.start, text + beside))
    for copy in times.copies:
        stage = f"stage {copy.stage + 1} ({model.stages[copy.stage].target})"
        way = f"to {stage}" if copy.to_device else f"from {stage}"
        text = f"copy of {names[copy.value]} {way}, {microseconds(copy.span.seconds)}"
        lines.append((copy.span.start, f"{text}: {_hidden(times, copy)}"))
    lines.sort(key=lambda line: line[0])
    told = [f"    {microseconds(start):>12}  {text}" for start, text in lines]
    whole = f"a call, predicted: {microseconds(times.end)}"
    if times.in_turn - times.end > 1e-9:
        whole += f"; {microseconds(times.in_turn)} with one after the other"
    hidden = sum(map(times.hidden, times.copies))
    copying = sum(copy.span.seconds for copy in times.copies)
    if times.copies:
        end = f"of {microseconds(copying)} of copies {microseconds(hidden)} are hidden"
        told.append(end)
    return "\n".join([whole, *told])


def _hidden(times: Timeline, copy: CopySpan) -> str:
    """Behind which stages a copy is hidden, and how much of it."""
    behind = [str(number + 1) for number in times.hides(copy)]
    if not behind:
        return "nothing hides it"
    seconds = times.hidden(copy)
    word = "stage" if len(behind) == 1 else "stages"
    part = "hidden" if copy.span.seconds - seconds < 1e-9 else f"{microseconds(seconds)} hidden"
    return f"{part} behind {word} {', '.join(behind)}"


def _value_names(model: StagedModel) -> dict[int, str]:
    """The names of values, by their numbers."""
    names = {number: name for name, number in model.inputs.items()}
    names |= {number: one.name for number, one in model.sizes.items()}
    names |= {state.before: state.name for state in model.held}
    names |= {number: value.name for number, value in model.passed.items()}
    return names | {number: name for name, number in model.outputs.items()}


def microseconds(seconds: float) -> str:
    """A time, as text."""
    return f"{seconds * 1e6:,.1f} us"


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
