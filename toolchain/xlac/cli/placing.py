"""--place: which targets compute which nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def place_option(function: Command) -> Command:
    """--place of a command that compiles."""
    return click.option(
        "--place",
        "place",
        multiple=True,
        metavar="PATTERN=TARGET,…",
        help="Nodes on other targets, by path: encoder.*=cpu,decoder.*=c. Wins over SPEC.",
    )(function)


def places(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """Targets by pattern, in order, from texts such as `encoder.*=cpu,decoder.*=c|cpu`; None
    where the option is not given. A usage error for text of another form.
    """
    found: dict[str, list[str]] = {}
    for text in ",".join(texts).split(",") if texts else ():
        pattern, equals, targets = (part.strip() for part in text.rpartition("="))
        names = [name.strip() for name in targets.split("|")]
        if not equals or not pattern or not all(names):
            raise click.UsageError(f"--place takes PATTERN=TARGET or PATTERN=A|B, not '{text}'")
        if pattern in found:
            raise click.UsageError(f"--place gives '{pattern}' twice")
        found[pattern] = names
    return found if texts else None


@contextmanager
def told_placement() -> Iterator[None]:
    """Prints which nodes are not on the target that is preferred, on standard error."""
    from xlac.placement.places import PlacementWarning

    with told(PlacementWarning):
        yield


@contextmanager
def told(category: type[Warning]) -> Iterator[None]:
    """Prints warnings of a category on standard error, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield
    for one in caught:
        if issubclass(one.category, category):
            click.echo(f"warning: {one.message}", err=True)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
