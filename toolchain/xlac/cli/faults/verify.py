"""`xlac verify`: checks that a compiled program computes what its model defines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen, is_artefact, pairs
from xlac.cli.numbers import SEED
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
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of drawn inputs.")
@click.option("--taps/--no-taps", default=True, help="Check every group of nodes by itself.")
@click.option(
    "--each", is_flag=True, help="Check the graph after every single rewrite of the compile."
)
@click.option(
    "--search",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Look for the worst inputs, in N steps of hill climbing.",
)
@click.option(
    "--smallest",
    type=click.Path(path_type=Path),
    default=None,
    metavar="NAME",
    help="If a value is wrong, write the smallest spec that reproduces it: NAME.yaml, NAME.npz.",
)
@click.option("--all", "every", is_flag=True, help="Show every value, also correct ones.")
@click.option("--json", "as_json", type=click.Path(path_type=Path), help="Write a report as JSON.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write a report as JUnit's XML.")
def command(
    against: str,
    given: tuple[str, ...],
    archives: tuple[Path, ...],
    draws: str | None,
    seed: int,
    taps: bool,
    each: bool,
    search: int,
    smallest: Path | None,
    every: bool,
    as_json: Path | None,
    junit: Path | None,
    **options: Any,
) -> int:
    """Compile SPEC and compare it with what it means, node by node, by the bounds of docs/SPEC.md.
    A folder that xlac build made is compared with --against model.yaml.

    Exit code 0 says that every value is within its bound, 1 that one is not: then the first such
    node and the cause are named.
    """
    named = pairs(given, "--input")
    engines = [name.strip() for name in against.split(",") if name.strip()]
    kinds = None if draws is None else [d.strip() for d in draws.split(",") if d.strip()]
    if is_artefact(options["spec"]):
        return of_artefact(engines, named, archives, kinds, seed, options, every, as_json, junit)
    from xlac.cli.models import open_model
    from xlac.debug.verify.subject import VerifiedProgram
    from xlac.debug.verify.verify import LARGE, Extra, drawings, unsound, verified
    from xlac_sdk.host.registry import find
    from xlac_sdk.source import VerifyError

    choice = chosen(**options)
    model = open_model(choice)
    backend = find(choice.target)
    target = backend.target_for(choice.options.request)
    try:
        program = VerifiedProgram.of(model, target, backend, taps)
    except VerifyError as error:
        return tell(unsound(model, target, error), every, as_json, junit)
    sets = given_sets(model, named, archives, seed)
    small = program.lowered.program.work.flops < LARGE
    drawn = drawings(model, sets, kinds, small, seed)
    extra = Extra(each, search, seed)
    verification = verified(program, drawn, engines, choice.spec, say, extra=extra)
    code = tell(verification, every, as_json, junit)
    if code and smallest is not None:
        shrink(program, drawn, verification, smallest)
    return code


def say(line: str) -> None:
    """Prints progress on standard error."""
    click.echo(line, err=True)


def given_sets(
    model: Any, named: dict[str, str], archives: tuple[Path, ...], seed: int
) -> dict[str, Any]:
    """The user's inputs, by the names of their files."""
    from xlac.cli.inputs import gather

    sets = {file.stem: gather(model, named, file, seed) for file in archives}
    if named and not sets:
        sets["given"] = gather(model, named, None, seed)
    return sets


def of_artefact(
    engines: list[str],
    named: dict[str, str],
    archives: tuple[Path, ...],
    kinds: list[str] | None,
    seed: int,
    options: dict[str, Any],
    every: bool,
    as_json: Path | None,
    junit: Path | None,
) -> int:
    """Verifies an artefact against its source, given by `--against`."""
    from xlac.artefact.loader import load
    from xlac.cli.models import open_model
    from xlac.debug.verify.artefact import verified_artefact
    from xlac.debug.verify.verify import drawings

    if len(engines) != 1 or engines[0] == "reference":
        raise click.UsageError("an artefact is verified against its source: --against model.yaml")
    folder, source = options["spec"], Path(engines[0])
    choice = chosen(**{**options, "spec": source})
    model = open_model(choice)
    loaded = load(folder)
    drawn = drawings(model, given_sets(model, named, archives, seed), kinds, True, seed)
    verification = verified_artefact(loaded, model, source, drawn, say)
    return tell(verification, every, as_json, junit)


def shrink(program: Any, drawn: dict[str, Any], verification: Verification, name: Path) -> None:
    """Writes the smallest spec that fails as the model does."""
    from xlac.debug.compare import ComparedModel
    from xlac.debug.smallest import smallest, written

    wrong = verification.first_wrong
    inputs = drawn[wrong.draw] if wrong else next(iter(drawn.values()))
    subject = ComparedModel(program.model, inputs, program.target, program.backend)
    if subject.outcome().right:
        click.echo(
            "note: the outputs of the whole model are within their bounds: nothing was written"
        )
        return
    for file in written(smallest(subject, 400, say), program.model.precision, name):
        click.echo(f"smallest: {file}")


def tell(verification: Verification, every: bool, as_json: Path | None, junit: Path | None) -> int:
    """Prints the verification and writes the requested reports; returns the exit code."""
    import json

    click.echo(verification.text(every))

    if as_json is not None:
        as_json.parent.mkdir(parents=True, exist_ok=True)
        as_json.write_text(json.dumps(verification.json(), indent=1) + "\n", encoding="utf-8")
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(verification.junit(), encoding="utf-8")
    return 0 if verification.right else 1
