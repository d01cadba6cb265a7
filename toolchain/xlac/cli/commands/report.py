"""`xlac report`: a page that shows what a model became, how fast it is and how exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen, given_options, pairs
from xlac.cli.measuring import calling, measured_options

if TYPE_CHECKING:
    from xlac.debug.verify.verification import Verification


@click.command(name="report")
@measured_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Where the page is written. Default: MODEL.html here.",
)
@click.option("--run/--no-run", "runs", default=True, help="Measure the time of each kernel.")
@click.option("--verify", "verifies", is_flag=True, help="Verify, and show the error of each node.")
@click.option(
    "--json", "as_json", type=click.Path(path_type=Path), help="Write the document as JSON too."
)
def command(
    given: tuple[str, ...],
    archive: Path | None,
    seed: int,
    seconds: float,
    output: Path | None,
    runs: bool,
    verifies: bool,
    as_json: Path | None,
    timeout: float | None,
    allow_long: bool,
    copy_weights: bool,
    **options: Any,
) -> None:
    """Compile SPEC and write one page of HTML: graph, fusion, passes, memory, kernels, roofline,
    times. It opens without a network. Of a folder that `xlac build --dump` wrote, nothing is
    compiled or measured.
    """
    from xlac.cli.entry_run import beginning
    from xlac.cli.models import supplied
    from xlac.cli.progress import current
    from xlac.debug.report.document import DOCUMENT, ReportData
    from xlac.debug.report.pass_changes import PassRecorder
    from xlac.debug.report.stage_times import StageTimes
    from xlac.driver import executable, lower
    from xlac.support.dependencies import copying
    from xlac_sdk.host.registry import find

    if (options["spec"] / DOCUMENT).is_file():
        _write(_dumped(options["spec"]), output or Path(f"{options['spec'].name}.html"), as_json)
        return
    choice = chosen(**options, usual="step")
    backend = find(choice.target)
    facts = backend.target_for(choice.options.request)
    stages, passes, tell = StageTimes(), PassRecorder(), current().stage
    with copying(copy_weights), stages.watching("reading the model"):
        model, graphs, arrays = supplied(choice, pairs(given, "--input"), archive, seed)
        lowered = lower(
            model, facts, wanted=choice.wanted, memory=choice.memory, observers=[passes]
        )
        if runs:
            executable(lowered, backend)
    data = ReportData(lowered, model.graph, backend, passes, stages)
    inputs = [arrays[slot.name] for slot in lowered.program.inputs]
    if runs:
        tell("measuring")
        with calling(lowered.program, choice.target, choice.threads, timeout, allow_long):
            data.measure(inputs, seconds, beginning(graphs))
    if verifies:
        tell("verifying")
        data = replace(data, verification=verification(choice, model, arrays, facts, backend))
    _write(data.json(), output or Path(f"{choice.spec.stem}.html"), as_json)


def _write(document: dict[str, Any], file: Path, as_json: Path | None) -> None:
    """Writes the page of a document, and the document too if that is asked for."""
    import json

    from xlac.debug.report.page import page

    html = page(document)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html, encoding="utf-8")
    if as_json is not None:
        as_json.parent.mkdir(parents=True, exist_ok=True)
        as_json.write_text(json.dumps(document) + "\n", encoding="utf-8")
    click.echo(f"{file}: {len(html.encode()) / 1e6:.1f} MB")


def _dumped(folder: Path) -> dict[str, Any]:
    """The document in a folder of --dump. Raises SourceError for what is none; a usage error for
    options about compiling.
    """
    import json

    from xlac.debug.report.document import DOCUMENT, SCHEMA
    from xlac_sdk.source import Diagnostic, SourceError
    from xlac_sdk.support.files import regular

    for option in given_options(("spec", "output", "as_json")):
        raise click.UsageError(f"{option} is for models; {folder} is what a build wrote")
    file = folder / DOCUMENT
    try:
        document = json.loads(regular(file).read_text(encoding="utf-8"))
    except ValueError as error:  # of JSON and of UTF-8
        raise SourceError(Diagnostic("XL3018", f"{file} is not a report: {error}")) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        hint = "write the folder again, with this version of `xlac build --dump`"
        raise SourceError(Diagnostic("XL3018", f"{file} is not a report of {SCHEMA}", hint=hint))
    return document


def verification(
    choice: Any, model: Any, arrays: dict[str, Any], facts: Any, backend: Any
) -> Verification:
    """Every group of nodes judged for the inputs of the report."""
    from xlac.debug.verify.subject import VerifiedProgram
    from xlac.debug.verify.verify import unsound, verified
    from xlac_sdk.source import VerifyError

    try:
        program = VerifiedProgram.of(model, facts, backend)
    except VerifyError as error:
        return unsound(model, facts, error)
    return verified(program, {"given": arrays}, ["reference"], choice.spec)
