"""`xlac bisect`: which rewrite of the optimizer broke a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.options import chosen, pairs, spec_options, target_options


@click.command(name="bisect")
@spec_options
@target_options
@click.option("--input", "-i", "given", multiple=True, metavar="NAME=VALUE", help="As for `xlac run`.")
@click.option("--inputs", "archive", type=click.Path(path_type=Path), help="A .npz with inputs by name.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random inputs.")
def command(given: tuple[str, ...], archive: Path | None, seed: int, **options: Any) -> int:
    """Compile SPEC with fewer and fewer rewrites until it agrees with the interpreter.

    Exit code 1 says that a culprit was found; it is printed.
    """
    from xlac.debug.bisect import bisect

    subject = open_subject(chosen(**options), pairs(given, "--input"), archive, seed)
    culprit = bisect(lambda trace: subject.outcome(trace).right, lambda line: click.echo(line, err=True))
    if culprit is None:
        click.echo("the compiled model agrees with the interpreter: nothing to bisect")
        return 0
    click.echo(str(culprit))
    return 1


def open_subject(choice: Any, given: dict[str, str], archive: Path | None, seed: int) -> Any:
    """The model that the options name, its inputs, and what it is compiled for."""
    from xlac.cli.build import open_model
    from xlac.cli.run import gather
    from xlac.debug.compare import Subject
    from xlac_sdk.registry import find
    from xlac_sdk.target import Request

    model = open_model(choice)
    backend = find(choice.target)
    target = backend.target(Request(cpu=choice.cpu, triple=choice.triple, threads=choice.threads))
    return Subject(model, gather(model, given, archive, seed), target, backend)
