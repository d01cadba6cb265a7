"""What a pass is: a frozen dataclass whose fields are its options, known by a name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from xlac.ir.graph import Graph
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace

Option = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Pass:
    """A transformation of graphs that keeps what they compute."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        """The graph transformed; the same object where nothing changed.

        Every rewrite asks `trace.permits` first, and what may be known beside the graph is in
        `context`.
        """

    @property
    def options(self) -> dict[str, Option]:
        """The options that differ from their defaults, by the names that they have in text."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        return {text_name(f): value for f, value in values if value != f.default}

    def __str__(self) -> str:
        """As a pipeline has it: `motion`, `motion{limit=3}`."""
        given = " ".join(f"{key}={option_text(value)}" for key, value in self.options.items())
        return f"{self.name}{{{given}}}" if given else self.name


PASSES: dict[str, type[Pass]] = {}
"""Every pass by its name."""

P = TypeVar("P", bound=Pass)


@dataclass_transform(frozen_default=True)
def register(name: str) -> Callable[[type[P]], type[P]]:
    """Makes the class a frozen dataclass, and the pass of that name."""

    def made(cls: type[P]) -> type[P]:
        frozen = dataclass(frozen=True)(cls)
        assert name not in PASSES, f"two passes are called {name}"
        assert all(f.default is not MISSING for f in fields(frozen)), f"{name}: options default"
        frozen.name = name
        PASSES[name] = frozen
        return frozen

    return made


def at_least(least: int, default: int) -> Any:
    """An option that is a whole number with a lower bound."""
    return field(default=default, metadata={"least": least})


def option_fields(cls: type[Pass]) -> dict[str, Field[Any]]:
    """The options of a pass by the names that they have in text."""
    return {text_name(f): f for f in fields(cls)}


def text_name(option: Field[Any]) -> str:
    """An option as text has it, with hyphens."""
    return option.name.replace("_", "-")


def option_text(value: Option) -> str:
    """The value of an option as text has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
