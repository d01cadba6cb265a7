"""The caller's view of a program's outputs: cut to their valid sizes, and assembled to
sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from xlac_sdk.dtypes import Array

FACTS = ("extents", "forms")
"""The keys of a program's facts that say how its outputs are given to the caller."""


class Results(NamedTuple):
    """Converts outputs of a program to what the caller gets.

    For an output whose sizes depend on data, `extents` maps each such axis to the output that holds
    the actual size; outputs of sizes are not given to the caller. `forms` maps a name to an output,
    a list of forms, or None, for a model that returns sequences; empty where every output is an
    array.
    """

    names: tuple[str, ...]
    extents: Mapping[str, Mapping[int, str]]
    forms: Mapping[str, Any]

    @staticmethod
    def facts(facts: Mapping[str, Any]) -> dict[str, Any]:
        """What the facts of a program say of its results, as JSON."""
        found: dict[str, Any] = {name: facts[name] for name in FACTS if facts.get(name)}
        if axes_of := found.get(FACTS[0]):
            found[FACTS[0]] = {
                name: {str(axis): count for axis, count in axes.items()}
                for name, axes in axes_of.items()
            }
        return found

    @staticmethod
    def of(outputs: tuple[str, ...], facts: Mapping[str, Any]) -> Results | None:
        """For a program with these outputs and facts; None where outputs are returned unchanged."""
        extents, forms = facts.get("extents") or {}, facts.get("forms") or {}
        if not extents and not forms:
            return None
        counts = {name for axes in extents.values() for name in axes.values()}
        names = tuple(forms) or tuple(name for name in outputs if name not in counts)
        return Results(
            names,
            {name: {int(a): n for a, n in axes.items()} for name, axes in extents.items()},
            forms,
        )

    def check(self, shapes: Mapping[str, tuple[Any, ...]]) -> None:
        """Raises ValueError unless these are results of outputs with these shapes, by name."""
        for name, axes in self.extents.items():
            if name not in shapes or any(not 0 <= axis < len(shapes[name]) for axis in axes):
                raise ValueError(f"results: '{name:.80}' is no output with these axes")
            if any(shapes.get(count, (0,)) not in ((), (1,)) for count in axes.values()):
                raise ValueError(f"results: a size of '{name:.80}' is no output of one number")
        waiting = [*self.forms.values()]
        while waiting:
            form = waiting.pop()
            if isinstance(form, list):
                waiting += form
            elif form is not None and (not isinstance(form, str) or form not in shapes):
                raise ValueError(f"results: {str(form)!r:.80} is no output")

    def __call__(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """What the caller gets, by name, from all outputs by name."""
        return {name: self._formed(self.forms.get(name, name), arrays) for name in self.names}

    def _formed(self, form: Any, arrays: Mapping[str, Array]) -> Any:
        if isinstance(form, list):
            return [self._formed(part, arrays) for part in form]
        return None if form is None else self._trimmed(form, arrays)

    def _trimmed(self, name: str, arrays: Mapping[str, Array]) -> Array:
        array = arrays[name]
        for axis, count in self.extents.get(name, {}).items():
            real = min(max(int(arrays[count]), 0), array.shape[axis])
            array = array[(slice(None),) * axis + (slice(real),)]
        return array
