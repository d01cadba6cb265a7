"""--place: which targets compute which nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from xlac.placement.automatic import AutomaticPlaces

AUTO = "auto:"

Command = TypeVar("Command", bound=Callable[..., Any])


def place_option(function: Command) -> Command:
    """--place of a command that compiles."""
    return click.option(
        "--place",
        "place",
        multiple=True,
        metavar="PATTERN=TARGET,…",
        help="Nodes on other targets, by path: encoder.*=cpu,decoder.*=c. Wins over SPEC. "
        "auto:c=8G chooses by memory and predicted time, among these and --target.",
    )(function)


def places(
    texts: Sequence[str], target: str
) -> Mapping[str, str | Sequence[str]] | AutomaticPlaces | None:
    """Targets by pattern, in order, from texts such as `encoder.*=cpu,decoder.*=c|cpu`; what is to
    be chosen by `auto:c=8G`; None where the option is not given. A usage error for text of
    another form.
    """
    if any(text.startswith(AUTO) for text in texts):
        if len(texts) > 1:
            raise click.UsageError(f"--place {AUTO} names all devices at once")
        return automatic(texts[0].removeprefix(AUTO), target)
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


def automatic(text: str, target: str) -> AutomaticPlaces:
    """Places to be chosen, from `c=8G:60Tflop/s:2TB/s,cpu`: for each device its memory, and the
    operations and bytes of memory that it does in a second; none of these need be said. `target`
    is one of them. A usage error for text of another form, SourceError for impossible numbers.
    """
    from xlac.memory.limit import parse
    from xlac.placement.automatic import AutomaticPlaces, DeviceLimits
    from xlac.spmd.cost import RankDevice

    devices = {}
    for one in text.split(",") if text else ():
        name, _, said = (part.strip() for part in one.partition("="))
        memory, _, speed = said.partition(":")
        if not name or name in devices or (speed and speed.count(":") != 1):
            raise click.UsageError(f"--place {AUTO} takes TARGET=MEMORY:FLOP/S:B/S, not '{one}'")
        rates = RankDevice.parse(speed.replace(":", ",")) if speed else RankDevice()
        devices[name] = DeviceLimits(parse(memory) if memory else None, rates.flops, rates.rate)
    devices.setdefault(target, DeviceLimits())
    return AutomaticPlaces(devices)


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
