"""`xlac bisect`: which rewrite, expansion or kernel broke a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen, pairs
from xlac.cli.numbers import SEED
from xlac.cli.options import spec_options, target_options


@click.command(name="bisect")
@spec_options
@target_options
@click.option(
    "--input", "-i", "given", multiple=True, metavar="NAME=VALUE", help="As for `xlac run`."
)
@click.option(
    "--inputs", "archive", type=click.Path(path_type=Path), help="A .npz with inputs by name."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of random inputs.")
def command(given: tuple[str, ...], archive: Path | None, seed: int, **options: Any) -> int:
    """Name what breaks the result of SPEC: a rewrite, an expansion, a kernel or the backend.

    Graphs are interpreted with fewer and fewer rewrites; when all of those are right, every kernel
    is run alone. Exit code 1 says that a culprit was found; it is printed.
    """
    from xlac.debug.bisect import bisect
    from xlac.debug.blame import locate

    def tell(line: str) -> None:
        click.echo(line, err=True)

    subject = open_subject(chosen(**options), pairs(given, "--input"), archive, seed)
    outcome = subject.outcome()
    if outcome.right:
        click.echo("the compiled model agrees with the interpreter: nothing to bisect")
        return 0
    tell(f"it fails: {outcome}")
    click.echo(
        str(bisect(lambda trace: subject.interpreted(trace).right, tell) or locate(subject, tell))
    )
    return 1


def open_subject(choice: Any, given: dict[str, str], archive: Path | None, seed: int) -> Any:
    """The model given by the options, its inputs, and its target."""
    from xlac.cli.inputs import gather
    from xlac.cli.models import open_model
    from xlac.debug.compare import ComparedModel
    from xlac_sdk.host.registry import find

    model = open_model(choice)
    backend = find(choice.target)
    target = backend.target_for(choice.options.request)
    return ComparedModel(model, gather(model, given, archive, seed), target, backend)
