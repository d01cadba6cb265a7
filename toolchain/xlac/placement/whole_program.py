"""The program of a model in stages as its callers see it: inputs, outputs, state and memory, and no
steps, as each stage has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xlac.ir.types import Type
from xlac.placement.cut import bytes_of
from xlac.placement.stage_models import StagedModel
from xlac_sdk.programs.program import Program, Role, Slot

ALIGN = 64


def whole_program(model: StagedModel, stages: Sequence[Program]) -> Program:
    """The program of all stages. Its state block has the blocks of the stages one after the other,
    at `state_offsets`, and then what the host holds.
    """
    whole = model.whole
    types = {name: node.type for name, node in whole.graph.outputs.items()}
    params = {name: node.type for name, node in zip(model.inputs, whole.inputs, strict=True)}
    inputs = _slots(params, list(model.inputs), Role.INPUT)
    outputs = _slots(types, list(model.outputs), Role.OUTPUT)
    offsets = state_offsets(stages)
    kept = [
        replace(slot, symbol=f"stage{n}_{slot.symbol}", offset=slot.offset + start)
        for n, (program, start) in enumerate(zip(stages, offsets, strict=False))
        for slot in program.slots
        if slot.role in (Role.CONSTANT, Role.STATE)
    ]
    end = offsets[-1]
    for number, state in enumerate(model.held):
        name, type = state.name, state.type
        slot = Slot(name, f"held{number}", type.dtype, type.shape, Role.STATE, end, ALIGN)
        kept.append(slot)
        end += _whole(slot.nbytes)
    passing = sum(map(bytes_of, model.values.between.values()))
    return Program(
        whole.name,
        inputs,
        outputs,
        (*inputs, *outputs, *kept),
        (),
        {},
        arena_bytes=sum(one.arena_bytes for one in stages) + passing,
        state_bytes=end,
        sizes=tuple(whole.dims.values()),
        facts=_facts(model, stages),
    )


def state_offsets(stages: Sequence[Program]) -> list[int]:
    """Where the state block of each stage begins in that of the model, and where the last ends."""
    offsets = [0]
    for program in stages:
        offsets.append(offsets[-1] + _whole(program.state_bytes))
    return offsets


def _whole(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def _slots(types: Mapping[str, Type], names: Sequence[str], role: Role) -> tuple[Slot, ...]:
    return tuple(
        Slot(name, f"{role.value}{n}", types[name].dtype, types[name].shape, role)
        for n, name in enumerate(names)
    )


def _facts(model: StagedModel, stages: Sequence[Program]) -> dict[str, Any]:
    """What a program tells of a call: the work of all stages, and what it says of results."""
    work = [one.work for one in stages]
    told = {name: getattr(model.whole, name) for name in ("precision", "extents", "forms")}
    return {
        "flops": sum(one.flops for one in work),
        "bytes": sum(one.bytes for one in work),
        "stages": [stage.target for stage in model.stages],
        **{name: value for name, value in told.items() if value},
    }
