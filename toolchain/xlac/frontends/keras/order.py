"""The order in which Keras runs the layers of a model."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from xlac.frontends.keras.config import LayerConfig, TensorRef
from xlac.frontends.keras.file.malformed import MalformedKerasFile

Call = tuple[str, int]  # a layer, and the number of one of its calls


def ordered(
    layers: Sequence[LayerConfig], entries: set[Call], ends: Sequence[TensorRef], place: str
) -> list[Call]:
    """The calls of all layers, each after those whose results it takes, in the order in which Keras
    runs them: those with most calls after them first. `entries` are the inputs, `ends` the outputs.
    Raises MalformedKerasFile for references to calls that do not exist.
    """
    before = _before(layers, entries, place)
    try:
        every = list(TopologicalSorter(before).static_order())
    except CycleError as error:
        names = " -> ".join(name for name, _ in error.args[1])
        raise MalformedKerasFile(f"{place} has a circle of layers: {names}"[:300]) from None
    depths = _depths(before, [(ref.layer, ref.call) for ref in ends])
    kept = {call: number for number, call in enumerate(depths)}
    needed = sorted(depths, key=lambda call: (-depths[call], kept[call]))
    # a file may say of a layer with several calls that a later one comes first: then any order does
    places = {call: number for number, call in enumerate(needed)}
    fits = all(places[b] < places[c] for c in needed for b in before[c])
    return [*needed, *(call for call in every if call not in depths)] if fits else every


def _before(
    layers: Sequence[LayerConfig], entries: set[Call], place: str
) -> dict[Call, list[Call]]:
    """The calls that each call takes results of, without inputs."""
    calls = {(layer.name, n): call for layer in layers for n, call in enumerate(layer.calls)}
    before: dict[Call, list[Call]] = {}
    for key, call in calls.items():
        before[key] = [(ref.layer, ref.call) for ref in call.refs()]
        before[key] = [needed for needed in before[key] if needed not in entries]
        for needed in before[key]:
            if needed not in calls:
                raise MalformedKerasFile(
                    f"{place}: layer '{key[0]}' takes a result of '{needed[0]}', call "
                    f"{needed[1]}, which the model does not have"
                )
    return before


def _depths(before: dict[Call, list[Call]], ends: Sequence[Call]) -> dict[Call, int]:
    """How many calls come after each call at most, in the order in which Keras finds them; calls of
    one layer have the depth of the deepest. The rules are those of `map_graph` in
    keras/src/ops/function.py.
    """
    finished: dict[Call, None] = {}
    for end in ends:
        stack: list[tuple[Call, int]] = [(end, 0)] if end in before else []
        while stack:
            call, number = stack.pop()
            if call in finished:
                continue
            if number < len(before[call]):
                stack += [(call, number + 1), (before[call][number], 0)]
            else:
                finished[call] = None
    depths: dict[Call, int] = {}
    of_layers: dict[str, int] = {}
    for call in reversed(finished):
        depth = max(depths.setdefault(call, 0), of_layers.get(call[0], 0))
        depths[call] = of_layers[call[0]] = depth
        for needed in before[call]:
            depths[needed] = max(depth + 1, depths.get(needed, 0))
    return depths
