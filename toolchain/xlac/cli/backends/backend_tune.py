"""`xlac backend tune`: measures a device, for schedules that fit it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from xlac_sdk.target import Target


@click.command()
@click.argument("name")
@click.option("--arch", default="", help="A kind of machine that NAME knows; default this machine.")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the facts as YAML, for `xlac build --facts`, instead of storing them for later "
    "compilations.",
)
@click.option("--forget", is_flag=True, help="Measure nothing, and delete the stored facts.")
def tune(name: str, arch: str, file: Path | None, forget: bool) -> int:
    """Measure the device of NAME with kernels of our own, some seconds: arithmetic, bandwidth, the
    cost of a launch, widths of accesses and exchanges, blocks at once.

    What is found is kept, and later compilations for the device choose schedules by it.
    """
    from xlac_sdk.host.registry import find
    from xlac_sdk.target import Request
    from xlac_sdk.tuning.tune import require_tuned
    from xlac_sdk.tuning.tune import tune as tuned

    backend = find(name)
    target = backend.target(Request(arch=arch))
    require_tuned(backend, Request(arch=arch))
    if forget:
        click.echo(f"forgotten, in {_keep(target, {})}")
        return 0
    facts = tuned(backend, target, click.echo)
    if file is None:
        click.echo(f"kept in {_keep(target, facts.facts)}")
        return 0
    lines = [f"# {target.identity}, by `xlac backend tune {name}`"]
    lines += [f"# {what}: {value}" for what, value in facts.measured.items()]
    lines += [f"{fact}: {value}" for fact, value in sorted(facts.facts.items())]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    click.echo(f"written to {file}: `xlac build --facts {file}` takes it")
    return 0


def _keep(target: Target, facts: Mapping[str, Any]) -> str:
    """Keeps facts; returns the file's name. Raises SourceError without a cache, and for a folder
    that cannot be written to.
    """
    from xlac.support import tuned_facts
    from xlac_sdk.source import Diagnostic, SourceError

    try:
        return tuned_facts.keep(target.identity, facts)
    except ValueError:
        hint = "XLAC_CACHE names a folder; -o writes a file for --facts"
        problem = "the cache is off, and measured facts are stored beside it"
        raise SourceError(Diagnostic("XL5041", problem, hint=hint)) from None
    except OSError as error:
        problem = f"the measured facts cannot be stored: {error}"
        raise SourceError(Diagnostic("XL5043", problem, hint="XLAC_CACHE names a folder")) from None
