"""The options of a compilation as one frozen value: taken by every entry point, and part of the
cache's key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from xlac.settings import settings
from xlac.support.dependencies import content
from xlac.support.failures import Asked, kinds
from xlac.support.measured_facts import Facts, found
from xlac.support.tuned_facts import tuned_facts
from xlac_sdk.machine_facts import TUNABLE
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.target import Request

if TYPE_CHECKING:  # a warm start imports nothing of the compiler
    from xlac.model import Model
    from xlac.placement.automatic import AutomaticPlaces

DIGITS = 40  # of an integer, at most, as in specs
LARGEST = 10**DIGITS
TUNING = 60.0  # seconds for which `tune=True` searches


def too_long(name: str) -> SourceError:
    """The error for an integer of too many digits."""
    return SourceError(Diagnostic("XL4015", f"{name:.80} has more than {DIGITS} digits"))


def tuning_seconds(asked: float | bool | None) -> float | None:
    """The time to tune of an option, in seconds: True is TUNING, and False as None no time. Raises
    SourceError for what is no time.
    """
    if asked is None or asked is False:
        return None
    if asked is True:
        return TUNING
    if not isinstance(asked, int | float) or not 0 < asked < LARGEST:
        problem = f"tune is a number of seconds above 0, or True for {TUNING:g}, not {asked!r:.80}"
        raise SourceError(Diagnostic("XL4115", problem))
    return float(asked)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of `xlac.compile`, whose docstring says what each does."""

    dims: Mapping[str, int | str] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    sizes: Literal["specialize", "symbolic"] = "specialize"
    variants: Sequence[Mapping[str, int]] = ()
    threads: int | None = None
    cpu: str = ""
    triple: str = ""
    arch: str = ""
    precision: str = ""
    max_compile_seconds: float | None = None
    max_compile_memory: int | None = None
    checked: Asked = None
    copy_weights: bool = False
    schedules: str | os.PathLike[str] | Mapping[str, Any] | None = None
    passes: str = ""  # a pipeline as text; empty: the default one
    verify_each: bool = False
    signature: str = ""  # of those that a file has; empty: its default one
    max_memory: int | str | None = None  # bytes of one call, as a number or as text such as `512M`
    # of hand-written kernels; None: an error where the model needs one
    allow_kernels: bool | None = None
    # facts that replace those of the processor; None: measured facts where this machine is the
    # target
    facts: Facts | None = None
    tune: float | bool | None = None  # seconds; True: 60
    # targets by pattern of nodes; None: what the model says
    place: Mapping[str, str | Sequence[str]] | AutomaticPlaces | None = None

    def __post_init__(self) -> None:
        """Raises SourceError for an integer of more digits than a message could show, and for an
        impossible time to tune.
        """
        given = {name: getattr(self, name) for name in ("threads", "max_memory")}
        for named in (given, self.dims, self.params, *self.variants):
            for name, number in named.items() if isinstance(named, Mapping) else ():
                if isinstance(number, int) and abs(number) >= LARGEST:
                    raise too_long(str(name))
        object.__setattr__(self, "tune", tuning_seconds(self.tune))
        if self.tune is not None and self.schedules is not None:
            problem = "tune searches schedules, and so does not go with schedules"
            raise SourceError(Diagnostic("XL4115", problem, hint="leave one of them out"))

    @property
    def request(self) -> Request:
        """The target's request. Raises SourceError for an impossible number of threads."""
        threads = settings().threads if self.threads is None else self.threads
        if self.facts is None:
            elsewhere = self.cpu or self.triple or self.arch
            facts, tuned = () if elsewhere else host_facts(), tuned_facts()
        else:
            facts = tuple(fact for fact in self.facts if fact[0] not in TUNABLE)
            tuned = (("", self.facts),) if self.facts else ()
        return Request(
            self.cpu, self.triple, arch=self.arch, threads=threads, facts=facts, tuned=tuned
        )

    def placing(self, model: Model) -> Model:
        """The model with these places, where some are given, in place of its own. Raises
        SourceError for what is no mapping of patterns to targets.
        """
        if self.place is None:
            return model
        if not isinstance(self.place, Mapping):
            return replace(model, place=self.place.chosen(model).places)
        from xlac.placement.places import said_places

        return replace(model, place=said_places(self.place))

    @property
    def checks(self) -> tuple[str, ...]:
        """The kinds of checks that are requested. Raises SourceError for an unknown kind."""
        return kinds(self.checked)

    def to_json(self) -> dict[str, Any]:
        """The options that decide what is compiled, as JSON: part of the cache's key. Raises
        OSError for a file of schedules that cannot be read.
        """
        given = self.schedules
        return {
            "dims": dict(self.dims),
            "params": dict(self.params),
            "sizes": self.sizes,
            "precision": self.precision,
            "checked": list(self.checks),
            "variants": [dict(one) for one in self.variants],
            "passes": self.passes,
            "max_memory": self.max_memory,
            "signature": self.signature,
            "allow_kernels": self.allow_kernels,
            "tune": self.tune,
            "place": _told(self.place),
            "schedules": content(given) if isinstance(given, str | os.PathLike) else given,
        }


def host_facts() -> Facts:
    """The measured facts of this machine. With XLAC_MEASURE=1 it is measured, which takes seconds,
    if it never was.
    """
    facts = found()
    if facts is None and settings().measure:
        from xlac.support.measure import measured_once

        return measured_once()
    return facts or ()


def _told(place: Mapping[str, str | Sequence[str]] | AutomaticPlaces | None) -> Any:
    """Places as JSON."""
    if place is None:
        return None
    return [[*item] for item in place.items()] if isinstance(place, Mapping) else repr(place)
