"""The caller's view of a program's outputs: cut to their valid sizes, and assembled to
sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from xlac_sdk.dtypes import Array


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
