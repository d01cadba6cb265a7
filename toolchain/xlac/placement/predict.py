"""Predicts the times of a model's stages from their programs, and the order that follows."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ops.tensor.leaf import param
from xlac.placement.arrange import Arranged, arranged
from xlac.placement.automatic import AutomaticPlaces, DeviceLimits
from xlac.placement.stage_models import StagedModel
from xlac.placement.timeline import CopyLink, StageFacts
from xlac_sdk.dims import size_hint, volume
from xlac_sdk.machine.system_facts import processors
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

StageProgram = tuple[Target, Program, bool]
"""The target and the program of a stage, and whether its executable is `Overlapping`."""


def predicted(
    model: StagedModel, programs: Sequence[StageProgram], place: object = None
) -> Arranged:
    """The order of a call and its times, for the sizes to optimise for. Rates are those of `place`,
    where these are `AutomaticPlaces`, else those of a device of which nothing was said.
    """
    given = place if isinstance(place, AutomaticPlaces) else AutomaticPlaces({})
    facts = [
        _facts(stage.target, target, program, overlapping, given)
        for stage, (target, program, overlapping) in zip(model.stages, programs, strict=True)
    ]
    link = CopyLink(given.latency, given.rate)
    return arranged(model.values, facts, value_bytes(model), link, processors())


def _facts(
    name: str, target: Target, program: Program, overlapping: bool, given: AutomaticPlaces
) -> StageFacts:
    work, device = program.work, given.devices.get(name, DeviceLimits())
    taken = target.threads if target.device == "cpu" else 0
    return StageFacts(name, device.takes(work.flops, work.bytes), taken, overlapping)


def value_bytes(model: StagedModel) -> dict[int, int]:
    """The bytes of each value, by its number, for the sizes to optimise for."""
    whole = model.whole
    given = {param(node).name: node.type for node in whole.inputs}
    types = {number: given[name] for name, number in model.inputs.items()}
    types |= {number: whole.graph.outputs[name].type for name, number in model.outputs.items()}
    types |= {number: value.type for number, value in model.passed.items()}
    types |= {state.before: state.type for state in model.held}
    found = {n: size_hint(volume(type.shape)) * type.dtype.nbytes for n, type in types.items()}
    return found | {number: one.opt for number, one in model.sizes.items()}
