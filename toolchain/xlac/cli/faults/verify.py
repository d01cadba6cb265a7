"""`xlac verify`: whether a compiled program computes what its model means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen, pairs
from xlac.cli.options import spec_options, target_options

if TYPE_CHECKING:
    from xlac.debug.verify.verification import Verification


@click.command(name="verify")
@spec_options
@target_options
@click.option(
    "--against",
    default="reference",
    show_default=True,
    metavar="ENGINES",
    help="Compare with these: reference (the meaning in float64), onnxruntime, torch, jax.",
)
@click.option(
    "--input", "-i", "given", multiple=True, metavar="NAME=VALUE", help="As for `xlac run`."
)
@click.option(
    "--inputs",
    "archives",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A .npz with inputs by name; several are verified one after another.",
)
@click.option(
    "--draw",
    "draws",
    default=None,
    metavar="KINDS",
    help="Inputs to draw: random, large, tiny, special, ties, zeros. Default all, or random "
    "where a call is long.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of drawn inputs.")
@click.option("--taps/--no-taps", default=True, help="Judge every group of nodes by itself.")
@click.option("--all", "every", is_flag=True, help="Show every value, also those that are right.")
@click.option("--json", "as_json", type=click.Path(path_type=Path), help="Write a report as JSON.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write a report as JUnit's XML.")
def command(
    against: str,
    given: tuple[str, ...],
    archives: tuple[Path, ...],
    draws: str | None,
    seed: int,
    taps: bool,
    every: bool,
    as_json: Path | None,
    junit: Path | None,
    **options: Any,
) -> int:
    """Compile SPEC and compare it with what it means, node by node, by the bounds of docs/SPEC.md.

    Exit code 0 says that every value is within its bound, 1 that one is not: then the first such
    node and the cause are named.
    """
    from xlac.cli.inputs import gather
    from xlac.cli.models import open_model
    from xlac.debug.verify.subject import VerifiedProgram
    from xlac.debug.verify.verify import drawings, unsound, verified
    from xlac_sdk.host.registry import find
    from xlac_sdk.source import VerifyError

    choice = chosen(**options)
    model = open_model(choice)
    backend = find(choice.target)
    target = backend.target(choice.options.request)
    try:
        program = VerifiedProgram.of(model, target, backend, taps)
    except VerifyError as error:
        return tell(unsound(model, target, error), every, as_json, junit)
    named = pairs(given, "--input")
    sets = {file.stem: gather(model, named, file, seed) for file in archives}
    if named and not sets:
        sets["given"] = gather(model, named, None, seed)
    kinds = None if draws is None else [d.strip() for d in draws.split(",") if d.strip()]
    found = verified(
        program,
        drawings(program, sets, kinds, seed),
        [name.strip() for name in against.split(",") if name.strip()],
        choice.spec,
        lambda line: click.echo(line, err=True),
    )
    return tell(found, every, as_json, junit)


def tell(found: Verification, every: bool, as_json: Path | None, junit: Path | None) -> int:
    """Prints what was found and writes the reports that are asked for; the exit code."""
    import json

    click.echo(found.text(every))

    if as_json is not None:
        as_json.parent.mkdir(parents=True, exist_ok=True)
        as_json.write_text(json.dumps(found.json(), indent=1) + "\n", encoding="utf-8")
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(found.junit(), encoding="utf-8")
    return 0 if found.right else 1
