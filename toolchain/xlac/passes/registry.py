"""The registry of passes. A pass is a frozen dataclass whose fields are its options."""

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
    """A transformation of graphs that preserves their results."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        """The graph transformed; the same object where nothing changed.

        Every rewrite asks `trace.permits` first; facts beside the graph are in `context`.
        """

    @property
    def options(self) -> dict[str, Option]:
        """The options that differ from their defaults, by the names that they have in text."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        return {text_name(f): value for f, value in values if value != f.default}

    def __str__(self) -> str:
        """As in a pipeline's text: `motion`, `motion{limit=3}`."""
        given = " ".join(f"{key}={option_text(value)}" for key, value in self.options.items())
        return f"{self.name}{{{given}}}" if given else self.name


PASSES: dict[str, type[Pass]] = {}
"""Every pass by its name."""

P = TypeVar("P", bound=Pass)


@dataclass_transform(frozen_default=True)
def register(name: str) -> Callable[[type[P]], type[P]]:
    """Makes the class a frozen dataclass, and registers it as the pass of that name."""

    def register_pass(cls: type[P]) -> type[P]:
        frozen = dataclass(frozen=True)(cls)
        assert name not in PASSES, f"two passes are called {name}"
        assert all(f.default is not MISSING for f in fields(frozen)), f"{name}: options default"
        frozen.name = name
        PASSES[name] = frozen
        return frozen

    return register_pass


def at_least(least: int, default: int) -> Any:
    """An option that is a whole number of at least `least`."""
    return field(default=default, metadata={"least": least})


def option_fields(cls: type[Pass]) -> dict[str, Field[Any]]:
    """The options of a pass by their names in text."""
    return {text_name(f): f for f in fields(cls)}


def text_name(option: Field[Any]) -> str:
    """The name of an option in text, with hyphens."""
    return option.name.replace("_", "-")


def option_text(value: Option) -> str:
    """The value of an option in text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
