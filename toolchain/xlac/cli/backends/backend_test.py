"""`xlac backend test`: tests every primitive, statement and operation on a backend, and prints
failures at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.backends.conformance_tables import print_tables

if TYPE_CHECKING:
    from xlac.debug.case_records import FinishedCases, LastFailed
    from xlac_sdk.backend import Backend
    from xlac_sdk.conformance import ConformanceReport, Outcome
    from xlac_sdk.target import Request


EVERY, MOST = 8, 3  # of a sample
OPERATION = "operation "  # prefix of groups of operations, as primitives have the same names


@click.command()
@click.argument("name")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the report as a page.",
)
@click.option(
    "--only",
    default="",
    metavar="TEXT",
    help="Only primitives, groups and operations whose name contains TEXT.",
)
@click.option("--arch", default="", help="A kind of machine that NAME knows; default this machine.")
@click.option(
    "--ops",
    "spec",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="SPEC",
    help="Only the hand-written kernels of SPEC's operations, which are compiled and run: each is "
    "compared with what its operation means.",
)
@click.option("--kernels", is_flag=True, help="Leave the operations out.")
@click.option("-x", "--exitfirst", "first", is_flag=True, help="Stop at the first failure.")
@click.option(
    "--lf",
    "--last-failed",
    "again",
    is_flag=True,
    help="Only the cases that failed last time; all, if none did.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Leave out what passed in the last run, if that was interrupted or stopped by -x.",
)
@click.option(
    "--fast",
    is_flag=True,
    help=f"A sample: every {EVERY}th case of a group, and {MOST} cases of an operation.",
)
def test(
    name: str,
    html: Path | None,
    only: str,
    arch: str,
    spec: Path | None,
    kernels: bool,
    first: bool,
    again: bool,
    resume: bool,
    fast: bool,
) -> int:
    """Test NAME on every primitive, statement and operation; the exit code is 1 when something
    fails.

    What fails is printed as it comes, and kept in the cache's folder for --lf. Cases for element
    types that the target lacks are left out, and counted.
    """
    from xlac.debug.case_records import FinishedCases, LastFailed
    from xlac_sdk.host.registry import find
    from xlac_sdk.target import Request

    backend, request = find(name), Request(arch=arch)
    kept_as = "-".join([name, *[arch] * bool(arch), *([spec.name] if spec else [])])
    last, done = LastFailed.of(kept_as), FinishedCases.of(f"{kept_as}{'-fast' * fast}", resume)
    failed = last.chosen(again)

    def chosen(group: str, case: str) -> bool:
        return failed(group, case) and done.left(group, case)

    _print_chosen(name, last, done, again)
    if spec is not None:
        operations = [*_of_spec(spec, backend, request, only, chosen)]
    else:
        most = MOST if fast else None
        operations = [] if kernels else [*_operations(backend, request, only, chosen, most)]
    wanted = chosen if spec is None else lambda group, case: False
    with last, done:
        operations = [(name, _noted(name, made, done)) for name, made in operations]
        report = _run(
            backend, request, operations, only, wanted, last, done, first, EVERY if fast else 1
        )
        if not (first and not report.ok):
            done.complete()
        if not (first and not report.ok) and not fast and not resume:
            last.complete(
                lambda group: (
                    only in group.removeprefix(OPERATION)
                    and not (kernels and group.startswith(OPERATION))
                )
            )
    print_tables(report, only if not (again or resume) else "")
    if report.failed:
        kind = f" --arch {arch}" * bool(arch) + f" --ops {spec}" * bool(spec)
        _print_how_to_repeat(f"xlac backend test {name}{kind}", first)
    if html is not None:
        html.write_text(report.html(), encoding="utf-8")
        click.echo(f"report: {html}")
    return 0 if report.ok else 1


def _print_chosen(name: str, last: LastFailed, done: FinishedCases, again: bool) -> None:
    """Prints what former runs decide of this one."""
    if done.before:
        click.echo(f"left out, as they passed: {len(done.before)}", err=True)
    if again:
        click.echo(
            f"{len(last.failed)} failed last time"
            if last.failed
            else f"no failure of '{name}' is kept: everything runs",
            err=True,
        )


def _print_how_to_repeat(command: str, first: bool) -> None:
    click.echo(f"{command} --lf runs what failed again{' (stopped at the first)' if first else ''}")


def _run(
    backend: Backend,
    request: Request,
    operations: Sequence[tuple[str, Iterator[Outcome]]],
    only: str,
    wanted: Callable[[str, str], bool],
    last: LastFailed,
    done: FinishedCases,
    first: bool,
    every: int,
) -> ConformanceReport:
    """Runs the cases, shows progress, prints and records failures; with `first` stops at the first
    one.
    """
    from rich.console import Console
    from rich.markup import escape

    from xlac.cli.progress import Progress, ProgressLines
    from xlac_sdk.conformance import run

    failed, lines = 0, ProgressLines()
    with Progress(f"the cases of {backend.name}") as progress:

        def step(case: str, number: int, whole: int) -> None:
            progress.count(f"{case}{f' ({failed} failed)' if failed else ''}", number, whole)
            lines.count(f"{failed} failed", case, number, whole)

        def on_case(group: str, case: str, passed: bool) -> None:
            if passed:
                done.passed(group, case)

        def report(outcome: Outcome) -> bool:
            nonlocal failed
            last.ran(outcome.group, outcome.case, outcome.status == "failed")
            if outcome.status != "failed":
                return False
            failed += 1
            Console().print(
                f"[red]✗[/] {escape(outcome.case)}\n    {escape(outcome.detail)}",
                highlight=False,
                soft_wrap=True,
            )
            return first

        return run(
            backend,
            operations,
            only=only,
            request=request,
            progress=step,
            on_outcome=report,
            wanted=wanted,
            on_case=on_case,
            every=every,
        )


def _noted(name: str, made: Iterator[Outcome], done: FinishedCases) -> Iterator[Outcome]:
    """The outcomes of an operation, which is recorded as passed where all of them did."""
    passed = True
    for outcome in made:
        passed &= outcome.status in ("passed", "left out")
        yield outcome
    if passed:
        done.passed(OPERATION + name, "")


def _operations(
    backend: Backend,
    request: Request,
    only: str,
    chosen: Callable[[str, str], bool],
    most: int | None,
) -> Iterator[tuple[str, Iterator[Outcome]]]:
    """The operations to test, each with its outcomes as they finish; all cases of an operation
    share one run, or `most` of them.
    """
    from xlac.ops import OPS

    for mnemonic in sorted(OPS):
        if only in mnemonic and chosen(OPERATION + mnemonic, "") and OPS[mnemonic].samples():
            yield mnemonic, _outcomes(mnemonic, OPS[mnemonic], backend, request, most)


def _of_spec(
    spec: Path, backend: Backend, request: Request, only: str, chosen: Callable[[str, str], bool]
) -> Iterator[tuple[str, Iterator[Outcome]]]:
    """The operations of a spec that have a kernel for the target, with their outcomes."""
    from xlac.debug.kernel_cases import kernel_outcomes

    for name, outcomes in kernel_outcomes(spec, backend, request):
        if only in name and chosen(OPERATION + name, ""):
            yield name, _in_group(OPERATION + name, outcomes)


def _in_group(group: str, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    for outcome in outcomes:
        yield replace(outcome, group=group)


def _outcomes(
    mnemonic: str, op: Any, backend: Backend, request: Request, most: int | None
) -> Iterator[Outcome]:
    from xlac.debug.conformance import outcomes
    from xlac_sdk.conformance import Outcome

    for outcome in outcomes(op, backend, request, most):
        yield Outcome(OPERATION + mnemonic, outcome.case, outcome.status, outcome.detail)
