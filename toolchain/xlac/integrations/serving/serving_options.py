"""What a model's settings on a server say to xlac."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import nearest

KEYS = ("target", "threads", "batching")
BATCHING = ("rows", "wait")


def unservable(problem: str, hint: str = "") -> SourceError:
    """The error for a model, or settings, that cannot be served."""
    return SourceError(Diagnostic("XL7818", problem, hint=hint))


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """`target` and `threads` are those of `xlac.compile`, for models that are no artefacts. With
    `batching`, requests that wait at the same time are one call of at most `rows` rows (None: the
    bound of the batch's size); the first of them waits at most `wait` seconds for others.
    """

    target: str | None = None
    threads: int | None = None
    batching: bool = False
    rows: int | None = None
    wait: float = 0.0

    @staticmethod
    def of(extra: Mapping[str, Any]) -> ServingOptions:
        """The options in `parameters.extra` of a model's settings. Raises SourceError for others,
        and for values of another kind.
        """
        _known(extra, KEYS, "extra")
        target, threads = extra.get("target"), extra.get("threads")
        if target is not None and not isinstance(target, str):
            raise unservable(f"target is the name of a target, not {target!r:.80}")
        if threads is not None:
            _count("threads", threads)
        asked = extra.get("batching", False)
        if isinstance(asked, bool):
            return ServingOptions(target, threads, asked)
        if not isinstance(asked, Mapping):
            problem = f"batching is true, false, or its rows and wait, not {asked!r:.80}"
            raise unservable(problem, 'write {"rows": 32, "wait": 0.002}')
        _known(asked, BATCHING, "batching")
        rows, wait = asked.get("rows"), asked.get("wait", 0.0)
        if rows is not None:
            _count("rows", rows)
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < 3600:
            raise unservable(f"wait is seconds from 0 to 3600, not {wait!r:.80}")
        return ServingOptions(target, threads, True, rows, float(wait))


def _known(given: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in given:
        if name not in names:
            hint = nearest(str(name), names, f"there are: {', '.join(names)}")
            raise unservable(f"unknown setting '{name}' in {where}", hint)


def _count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise unservable(f"{name} is a whole number from 1, not {value!r:.80}")
