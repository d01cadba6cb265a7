"""`xlac bench`: how long a call takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen, is_artefact, pairs
from xlac.cli.measuring import (
    Gate,
    baseline_options,
    baseline_result,
    calling,
    lowered_with_inputs,
    measured_options,
)
from xlac.cli.runs.contenders import BenchInputs, contenders, engines_named, show, timed
from xlac.cli.runs.times import counters, spread, tell_calls, tell_doubts

if TYPE_CHECKING:
    from xlac.debug.timing import Samples
    from xlac.driver import Lowered
    from xlac.runtime.compiled import Compiled
    from xlac_sdk.backend import Backend
    from xlac_sdk.kernel_ir.kernel import Work
    from xlac_sdk.target import Target


@click.command(name="bench")
@measured_options
@click.argument("others", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--against",
    default="",
    metavar="ENGINES",
    help="Time these engines too, with commas: onnxruntime, torch, jax.",
)
@click.option(
    "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Write bars of times as SVG."
)
@click.option(
    "--csv", "as_csv", type=click.Path(path_type=Path), metavar="FILE", help="Write rows as CSV."
)
@click.option(
    "--counters", "counted", is_flag=True, help="Count cycles, misses, faults, energy of a call."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@baseline_options
def command(
    others: tuple[Path, ...],
    against: str,
    plot: Path | None,
    as_csv: Path | None,
    counted: bool,
    given: tuple[str, ...],
    archive: Path | None,
    seed: int,
    seconds: float,
    as_json: bool,
    baseline: Path | None,
    tolerance: float,
    timeout: float | None,
    allow_long: bool,
    copy_weights: bool,
    **options: Any,
) -> int:
    """Compile SPEC and time calls; of a folder that xlac build made, the calls only. Inputs that
    are not given are random.

    Reports compile time, the median and quartiles of a call, its rates of arithmetic and traffic as
    shares of what this machine does at most, and the kernels that take the most time. Those are
    measured between bursts of calls; what cannot be right, or varies too much to be trusted, is
    said, and is `doubts` in JSON. With --baseline exit code 1 says that calls are slower than they
    were.

    Several specs, and engines after --against, are timed in turn, and compared with an interval of
    95 %: engines with xlac, further specs with the first.
    """
    inputs = BenchInputs(given, archive, seed, timeout, allow_long, copy_weights, counted)
    if others or against or plot or as_csv:
        if baseline is not None or counted:
            name = "--counters" if counted else "--baseline"
            raise click.UsageError(f"{name} is for one model, without --against, --plot, --csv")
        specs = (options["spec"], *others)
        entries = contenders(specs, engines_named(against), inputs, options)
        show(timed(entries, seconds, tolerance), as_json, as_csv, plot)
        return 0
    gate = Gate(baseline_result(baseline), tolerance, as_json)
    if is_artefact(options["spec"]):
        return artefact_bench(inputs, seconds, gate, options)
    return model_bench(inputs, seconds, gate, options)


def model_bench(supplied: BenchInputs, seconds: float, gate: Gate, options: dict[str, Any]) -> int:
    """Compiles a model and times its calls, in total and by kernel."""
    import time

    from xlac.cli.entry_run import beginning
    from xlac.cli.runs.contenders import stages_bench
    from xlac.driver import executable

    choice = chosen(**options, usual="step")
    start, busy = time.perf_counter(), time.process_time()
    read = supplied.read(choice)
    if read.model.place:
        return stages_bench(choice, read, supplied, seconds, gate)
    lowered_model = lowered_with_inputs(choice, read, supplied.copy_weights)
    model, graphs, arrays, backend, facts, lowered = lowered_model
    compiled = executable(lowered, backend)
    begin = beginning(graphs)
    begin(compiled)
    compile_seconds, compile_cpu = time.perf_counter() - start, time.process_time() - busy

    inputs = [arrays[slot.name] for slot in compiled.program.inputs]
    with calling(
        compiled.program, choice.target, choice.threads, supplied.timeout, supplied.allow_long
    ):
        # a time-out slows calls down, so only the first has one; the others take as long
        compiled(*inputs)
    result = {
        "model": model.name,
        "target": choice.target,
        "threads": choice.threads,
        "compile_seconds": round(compile_seconds, 4),
        "compile_cpu_seconds": round(compile_cpu, 4),
        **measured(lowered, backend, facts, compiled, inputs, seconds, begin),
        **counters(supplied.counters, lambda: compiled(*inputs), seconds / 4),
    }
    return gate.shown(result, tell)


def measured(
    lowered: Lowered,
    backend: Backend,
    facts: Target,
    compiled: Compiled,
    inputs: list[Any],
    seconds: float,
    begin: Callable[[Compiled], object],
) -> dict[str, Any]:
    """The time of calls, in total and by kernel, and the memory of the program."""
    from xlac.cli.progress import current
    from xlac.debug import ceilings, timing

    program = compiled.program
    with ceilings.probes(backend, facts) if facts.vector_bytes else nullcontext(()) as probes:
        samples = timing.take(
            lambda: compiled(*inputs),
            seconds,
            [probe.run for probe in probes],
            tell=partial(current().count, "measuring, in bursts"),
        )
    return {
        **spread(samples),
        **rates(program.work, samples, [probe.amount for probe in probes]),
        "kernels": len(program.kernels),
        "shares": shares(lowered, backend, inputs, seconds / 4, begin),
        "arena_bytes": program.arena_bytes,
        "constant_bytes": sum(s.nbytes for s in program.slots if s.role.value == "constant"),
    }


def artefact_bench(inputs: BenchInputs, seconds: float, gate: Gate, options: dict[str, Any]) -> int:
    """Times calls of an artefact at the sizes of the given `inputs`, or their `opt`; does not
    import the compiler.
    """

    from xlac.artefact.loader import load
    from xlac.cli.choice import artefact
    from xlac.cli.inputs import drawn
    from xlac.debug import timing

    whole = load(artefact(options["spec"]), copy_weights=inputs.copy_weights)
    model: Any = whole
    if options["entry"] not in (None, "run"):
        from xlac.cli.entry_run import MEASURED_LENGTH
        from xlac_sdk.host.entry_calls import asked

        model = asked(whole.entries, options["entry"])
        if "length" in whole.state.settings:
            whole.state.set_number("length", MEASURED_LENGTH)
    given = pairs(inputs.given, "--input")
    arrays = [*drawn(model.program, given, inputs.archive, inputs.seed).values()]
    facts = whole.manifest
    with calling(model.program, facts.target, 1, inputs.timeout, inputs.allow_long):
        model(*arrays)
    samples = timing.take(lambda: model(*arrays), seconds)
    result = {
        "model": facts.name,
        "target": facts.target,
        **({"flops": facts.flops} if model is whole else {"entry": options["entry"]}),
        **spread(samples),
        "doubts": timing.unsteady(samples),
        **counters(inputs.counters, lambda: model(*arrays), seconds / 4),
    }

    def tell_artefact(result: dict[str, Any]) -> None:
        what = "" if model is whole else f", entry {options['entry']}"
        click.echo(f"{facts.name} on {facts.target}, built ahead of time{what}")
        tell_calls(result)
        tell_doubts(result)

    return gate.shown(result, tell_artefact)


def rates(work: Work, samples: Samples, amounts: Sequence[int]) -> dict[str, Any]:
    """The rates of a call, their ceilings (None without `amounts`, the work of each ceiling's run),
    and doubts about them.
    """
    from xlac.debug import timing

    reported: dict[str, Any] = {"flops": work.flops, "bytes": work.bytes}
    doubts = timing.unsteady(samples)
    for place, (unit, of_call, what, why) in enumerate(
        (
            (
                "gflops",
                work.flops,
                "arithmetic",
                (
                    "the operations are overestimated, or the machine was slower when "
                    "the limit was measured"
                ),
            ),
            (
                "gbytes",
                work.bytes,
                "traffic",
                "the estimate assumes that all data come from memory, but much stays in the caches",
            ),
        )
    ):
        rate = of_call / samples.median / 1e9
        reported[f"{unit}_per_second"], reported[f"ceiling_{unit}_per_second"] = rate, None
        if amounts:
            best, varies = timing.ceiling(samples.beside[place])
            most = amounts[place] / best / 1e9
            reported |= {
                f"ceiling_{unit}_per_second": most,
                f"ceiling_{unit}_spread": varies,
                f"{unit}_share": rate / most,
            }
            doubts += timing.doubtful(what, rate / most, varies, why)
    return reported | {"doubts": doubts}


def shares(
    lowered: Any, backend: Any, inputs: Any, seconds: float, begin: Callable[[Compiled], object]
) -> dict[str, float]:
    """The share of time of each kernel, largest first; empty for a target without profiling."""
    from xlac.debug import profile
    from xlac_sdk.source import UnsupportedError

    try:
        profiled = profile.take(lowered, backend, inputs, seconds, begin)
    except UnsupportedError:
        return {}
    spent: dict[str, float] = {}
    for row in profiled.rows:
        spent[row.name] = spent.get(row.name, 0.0) + row.seconds / max(profiled.seconds, 1e-12)
    return dict(sorted(spent.items(), key=lambda entry: -entry[1]))


def tell(result: dict[str, Any]) -> None:
    """Prints the figures as text."""
    from xlac.cli.amounts import size

    def of_most(kind: str, what: str) -> str:
        ceiling = result[f"ceiling_{kind}"]
        return (
            f", {100 * result[kind] / ceiling:.0f} % of the {ceiling:.0f} that {what}"
            if ceiling
            else ""
        )

    click.echo(f"{result['model']} on {result['target']}, {result['threads']} thread(s)")
    seconds, busy = result["compile_seconds"], result["compile_cpu_seconds"]
    click.echo(f"  compile   {seconds:.2f} s ({busy:.2f} s of CPU)")
    tell_calls(result)
    rate, traffic = result["gflops_per_second"], result["gbytes_per_second"]
    click.echo(
        f"  rate      {rate:.1f} GFLOP/s over {result['flops']:,} "
        f"flops{of_most('gflops_per_second', 'this machine does')}"
    )
    click.echo(
        f"  traffic   {traffic:.1f} GB/s over {result['bytes']:,} "
        f"bytes{of_most('gbytes_per_second', 'memory gives')}"
    )
    first = [f"{name} {100 * share:.0f} %" for name, share in list(result["shares"].items())[:6]]
    click.echo(f"  kernels   {result['kernels']}{': ' if first else ''}{', '.join(first)}")
    click.echo(
        f"  memory    {size(result['arena_bytes'])} arena, {size(result['constant_bytes'])} "
        "constants"
    )
    tell_doubts(result)
