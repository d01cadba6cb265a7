"""A model's stages for its places: which target each gets, and what else a user may allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xlac.ir.graph import Node
from xlac.model import Model, SaidPlace
from xlac.ops.tensor.leaf import Param
from xlac.placement.cut import DeviceStage, cut
from xlac.placement.devices import assigned
from xlac.placement.split import split
from xlac.placement.stage_models import StageBuilder, StagedModel
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError, XlacError

Stage = TypeVar("Stage")
Places = Mapping[str, "str | Sequence[str]"]
"""Targets by pattern, as users write them: one, or several in the order of preference."""


class PlacementWarning(UserWarning):
    """Nodes are on another target than the one preferred, as the user allows."""


@dataclass(frozen=True, slots=True, eq=False)
class Staged(Generic[Stage]):
    """A model in stages, what was made of each, and what a user is to be told: which nodes are not
    on the target that is preferred.
    """

    model: StagedModel
    stages: list[Stage]
    notes: list[str]


def said_places(places: Places) -> tuple[SaidPlace, ...]:
    """What an option says. Raises SourceError for what is no mapping of patterns to targets."""
    said = []
    for pattern, targets in places.items():
        names: list[Any] = [*targets] if isinstance(targets, list | tuple) else [targets]
        if not isinstance(pattern, str) or not names or not all(isinstance(n, str) for n in names):
            problem = f"place maps patterns to targets, not {pattern!r:.80} to {targets!r:.80}"
            raise SourceError(Diagnostic("XL7831", problem, hint='place={"encoder.*": "cpu"}'))
        said.append(SaidPlace(pattern, tuple(names)))
    return tuple(said)


def check_one_target(model: Model, target: str) -> None:
    """Raises UnsupportedError for a model with nodes on other targets: what is made of it now has
    one.
    """
    for said in model.place:
        if said.targets[0].partition(":")[0] != target:
            problem = f"{said.pattern!r} is placed on {said.targets[0]}, and this is one program"
            hint = (
                f"--place '*={target}' puts all nodes on {target}; xlac run, bench and "
                "explain, and xlac.compile, take several targets"
            )
            raise UnsupportedError(Diagnostic("XL7834", problem, said.span, hint))


def refuse_places(model: Model, what: str) -> None:
    """Raises UnsupportedError for a model with places, where `what` divides it otherwise."""
    for said in model.place:
        hint = f"--place '*={said.targets[0]}' puts all nodes on one target"
        problem = f"{what} does not go with place"
        raise UnsupportedError(Diagnostic("XL7834", problem, said.span, hint))


def no_program_options(options: Any) -> None:
    """Raises UnsupportedError for options, those of `xlac.compile`, that a model on several targets
    does not take yet.
    """
    for name in ("schedules", "tune", "variants", "max_memory"):
        if getattr(options, name):
            problem = f"{name} does not go with place yet"
            raise UnsupportedError(Diagnostic("XL7834", problem, hint="leave one of them out"))


def in_stages(model: Model, default: str, make: Callable[[Model, str], Stage]) -> Staged[Stage]:
    """Cuts a model by its places and makes something of each stage, by `make`, which gets the
    stage's model and the name of its target. What no place names is on `default`.

    Where `make` raises an error for a target that is not installed, or which cannot do what a stage
    needs, and a place of that stage names another target, the model is cut again with that one.
    Raises SourceError with all that is wrong with the places, and what `make` raises.
    """
    if model.checks:
        problem = "a checked model is not cut: xlac run and xlac.compile check each of its stages"
        raise UnsupportedError(Diagnostic("XL7834", problem, hint="leave --checked out"))
    found = assigned(model.graph, model.place)
    if found.problems:
        raise SourceError(*found.problems)
    chosen = dict.fromkeys(model.place, 0)
    notes: list[str] = []
    while True:
        names = {said: said.targets[number] for said, number in chosen.items()}
        parts = split(cut(model.graph, found.targets(names, default)), _states(model))
        stages = parts or [DeviceStage(default, ())]
        whole = StageBuilder(model, stages).staged()
        made: list[Stage] = []
        for number, stage in enumerate(stages):
            try:
                made.append(make(whole.stages[number].model, stage.target))
            except XlacError as error:
                places = dict.fromkeys(said for n in stage.nodes if (said := found.of_node[n]))
                others = [s for s in places if chosen[s] + 1 < len(s.targets)]
                if not _cannot(error) or not others:
                    raise _placed(error, list(places)) from None
                for said in others:
                    chosen[said] += 1
                    notes.append(_note(said, chosen[said], error))
                break
        else:
            return Staged(whole, made, notes)


def _states(model: Model) -> list[set[Node]]:
    """For each state the nodes that read it, and the one that changes it."""
    graph, groups = model.graph, []
    for name, output in model.state.items():
        readers = {n for n in graph.order for i in n.inputs if _is_param(i, name)}
        groups.append(readers | {graph.outputs[output]})
    return groups


def _is_param(node: Node, name: str) -> bool:
    return isinstance(node.op, Param) and node.op.name == name


def _cannot(error: XlacError) -> bool:
    """Whether an error says that a target is not there, or cannot do what is asked."""
    unknown = any(one.code == "XL5001" for one in error.diagnostics)
    return unknown or isinstance(error, UnsupportedError)


def _placed(error: XlacError, places: Sequence[SaidPlace]) -> XlacError:
    """An error of a target, with the place that names it where it has none."""
    said = next(iter(places), None)
    if said is None or any(one.span for one in error.diagnostics):
        return error
    told = [Diagnostic(d.code, d.message, said.span, d.hint) for d in error.diagnostics]
    return type(error)(*told)


def _note(said: SaidPlace, number: int, error: XlacError) -> str:
    before, now = said.targets[number - 1 : number + 1]
    reason = error.diagnostics[0].message if error.diagnostics else str(error)
    return f"{said.pattern!r} is on {now}, not on {before}: {reason}"
