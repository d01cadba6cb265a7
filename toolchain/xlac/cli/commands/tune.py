"""`xlac tune`: searches a faster fusion and faster schedules for a model by measuring them."""

from __future__ import annotations

import base64
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen
from xlac.cli.measuring import lowered_with_inputs, supplied_model, tuned_options
from xlac.cli.numbers import FiniteRange
from xlac_sdk.support.counts import number_of

if TYPE_CHECKING:
    from xlac.codegen.schedules.tuned import TuningRecords

WORKER = "from xlac.cli.commands.tune import serve; serve()"


@click.command(name="tune")
@tuned_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="The file of schedules; default NAME.tuning.yaml. If it exists, tuning goes on from what "
    "it has, of this model and others.",
)
@click.option(
    "--minutes",
    type=FiniteRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Time to search and measure for.",
)
@click.option(
    "--allow-rounding",
    is_flag=True,
    help="Also schedules that add in another order: results may differ within their documented "
    "error.",
)
def command(
    given: tuple[str, ...],
    archive: Path | None,
    seed: int,
    output: Path | None,
    minutes: float,
    allow_rounding: bool,
    copy_weights: bool,
    **options: Any,
) -> None:
    """Search a faster fusion of SPEC and faster schedules for its kernels by measuring them on this
    machine, and write them to a file, which --tuning of other commands and
    `xlac.compile(schedules=…)` take.

    Every choice is checked: results stay the same to the bit. Those kept were faster in calls of
    the whole model, in fresh processes, by more than 2 % with 95 % certainty.
    """
    from xlac.cli.models import open_model
    from xlac.cli.progress import current
    from xlac.codegen.schedules.document import of_records
    from xlac.debug.tune.process import TuningProcess
    from xlac.debug.tune.python_api import known_records
    from xlac.debug.tune.tune import ModelTuning
    from xlac.placement.places import check_one_target
    from xlac.support.whole_files import replacing
    from xlac_sdk.host.registry import find

    choice = chosen(**options, usual="step")
    model = open_model(choice)
    target = find(choice.target).target_for(choice.options.request)
    check_one_target(model, target.name)
    output = output or Path(f"{model.name}.tuning.yaml")
    records = known_records(output, target, choice.options.precision or model.precision)
    head = base64.b64encode(pickle.dumps((choice, given, archive, seed, copy_weights))).decode()

    def tell(line: str) -> None:
        click.echo(line, err=True)

    current().stage("tuning")
    with TuningProcess(WORKER, head) as worker:
        tuning = ModelTuning(worker, records, 60 * minutes, target.threads, allow_rounding, tell)
        found = tuning.run()
    with replacing(output) as file:
        file.write_text(of_records(found, model.name, choice.target), encoding="utf-8")
    if tuning.lost:
        tell(f"note: {tuning.lost} measurements ended in a crash, and were left out")
    _tell(found, records, output)


def _tell(records: TuningRecords, before: TuningRecords, output: Path) -> None:
    """Prints what was found: a line for each group, and the time of all of them."""
    fresh = {n: g for n, g in records.groups.items() if before.groups.get(n) != g}
    for group in fresh.values():
        times = f"{group.default_us:.1f} us"
        if group.parts:
            low, high = group.faster
            times += f" -> {group.tuned_us:.1f} us ({low:.2f} to {high:.2f} times as fast)"
        end = "all neighbours tried" if group.finished else "not finished"
        click.echo(f"{group.what}: {times}; {group.measured} schedules, {end}")
    for name, value in records.values.items():
        if value.word and before.values.get(name) != value:
            low, high = value.faster
            click.echo(
                f"{value.what}: {value.word}, with the others {low:.2f} to {high:.2f} times as fast"
            )
    default = sum(group.default_us for group in records.groups.values())
    tuned = sum(group.tuned_us for group in records.groups.values())
    click.echo(
        f"{output}: {default:.1f} us -> {tuned:.1f} us, "
        f"over {number_of(len(records.groups), 'group')}"
    )


def serve() -> None:
    """The process that measures: reads what to tune, then requests. Standard output is for its
    answers alone.
    """
    import os

    from xlac.cli.entry_run import beginning
    from xlac.codegen.schedules.document import Asked
    from xlac.debug.tune.stamped_model import TunedModel
    from xlac.debug.tune.worker import serve as answer
    from xlac.driver import Lowered, lower

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints
    choice, given, archive, seed, copy_weights = pickle.loads(
        base64.b64decode(sys.stdin.readline())
    )
    read = supplied_model(choice, given, archive, seed, copy_weights)
    measured = lowered_with_inputs(choice, read, copy_weights)

    def lowered_with(asked: Asked) -> Lowered:
        memory = choice.memory
        return lower(measured.model, measured.facts, wanted=asked, memory=memory, every=False)

    inputs = [measured.arrays[slot.name] for slot in measured.lowered.program.inputs]
    begin = beginning(measured.graphs)
    model = TunedModel(measured.lowered, lowered_with, measured.backend, inputs, begin)
    answer(model, sys.stdin, answers)
