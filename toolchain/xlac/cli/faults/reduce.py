"""`xlac reduce`: the smallest graph that still shows a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen, pairs
from xlac.cli.numbers import SEED
from xlac.cli.options import spec_options, target_options


@click.command(name="reduce")
@spec_options
@target_options
@click.option(
    "--input", "-i", "given", multiple=True, metavar="NAME=VALUE", help="As for `xlac run`."
)
@click.option(
    "--inputs", "archive", type=click.Path(path_type=Path), help="A .npz with inputs by name."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of random inputs.")
@click.option(
    "--attempts",
    type=click.IntRange(1),
    default=400,
    show_default=True,
    help="Most compilations to try.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write NAME.yaml and NAME.npz, for NAME as given, and weights beside them.",
)
def command(
    given: tuple[str, ...],
    archive: Path | None,
    seed: int,
    attempts: int,
    output: Path | None,
    **options: Any,
) -> int:
    """Shrink SPEC as long as it fails in the same way: a wrong result, or the same exception.

    Exit code 1 says that it fails; the smallest failing spec is printed, or written with its
    inputs.
    """
    from xlac.cli.faults.bisect import open_subject
    from xlac.debug.smallest import smallest, text_of, written

    subject = open_subject(chosen(**options), pairs(given, "--input"), archive, seed)
    first = subject.outcome()
    if first.right:
        click.echo("the compiled model agrees with the interpreter: nothing to reduce")
        return 0
    click.echo(f"it fails: {first}", err=True)
    case = smallest(subject, attempts, lambda line: click.echo(line, err=True))
    if output is None:
        click.echo(text_of(case, subject.model.precision), nl=False)
        return 1
    for file in written(case, subject.model.precision, output):
        click.echo(file)
    return 1
