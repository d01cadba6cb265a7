"""The model that `xlac run` runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xlac.cli.inputs import brought, value

if TYPE_CHECKING:
    from xlac.cli.choice import Chosen
    from xlac.model import Model


def opened(
    choice: Chosen, given: dict[str, str], archive: Path | None
) -> tuple[Model, frozenset[str]]:
    """The model, and which of the user's inputs determined its sizes and are now part of it."""
    from xlac.frontends.loader import load
    from xlac.model import Undecided

    params, decided = dict(choice.options.params), frozenset[str]()
    while True:
        try:
            model = load(
                choice.spec,
                dims=choice.options.dims,
                params=params,
                allow_outside=choice.allow_outside,
                signature=choice.options.signature,
                trusted=choice.trusted,
                precision=choice.options.precision,
            )
            return model, decided
        except Undecided as undecided:
            arrays = brought(undecided.interface.inputs, given, archive)
            wanted = undecided.interface.values - decided
            if not wanted or not wanted <= arrays.keys():
                raise
            params |= {name: value(arrays[name]) for name in wanted}
            decided |= wanted
