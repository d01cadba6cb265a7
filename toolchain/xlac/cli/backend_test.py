"""`xlac backend test`: tests every primitive, statement and operation on a backend, and prints
failures at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from xlac.debug.last_failed import LastFailed
    from xlac_sdk.backend import Backend
    from xlac_sdk.conformance import ConformanceReport, Outcome
    from xlac_sdk.target import Request


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
def test(
    name: str,
    html: Path | None,
    only: str,
    arch: str,
    spec: Path | None,
    kernels: bool,
    first: bool,
    again: bool,
) -> int:
    """Test NAME on every primitive, statement and operation; the exit code is 1 when something
    fails.

    What fails is printed as it comes, and kept in the cache's folder for --lf. Cases for element
    types that the target lacks are left out, and counted.
    """
    from xlac.debug.last_failed import LastFailed
    from xlac_sdk.host.registry import find
    from xlac_sdk.target import Request

    backend, request = find(name), Request(arch=arch)
    last = LastFailed.of("-".join([name, *[arch] * bool(arch), *([spec.name] if spec else [])]))
    chosen = last.chosen(again)
    if again:
        click.echo(
            f"{len(last.failed)} failed last time"
            if last.failed
            else f"no failure of '{name}' is kept: everything runs",
            err=True,
        )
    if spec is not None:
        operations = [*_of_spec(spec, backend, request, only, chosen)]
    else:
        operations = [] if kernels else [*_operations(backend, request, only, chosen)]
    wanted = chosen if spec is None else lambda group, case: False
    with last:
        report = _run(backend, request, operations, only, wanted, last, first)
        if not (first and not report.ok):
            last.complete(
                lambda group: (
                    only in group.removeprefix(OPERATION)
                    and not (kernels and group.startswith(OPERATION))
                )
            )
    _print(report)
    if not report.ok:
        more = " (stopped at the first)" if first else ""
        kind = f" --arch {arch}" * bool(arch) + f" --ops {spec}" * bool(spec)
        click.echo(f"xlac backend test {name}{kind} --lf runs what failed again{more}")
    if html is not None:
        html.write_text(report.html(), encoding="utf-8")
        click.echo(f"report: {html}")
    return 0 if report.ok else 1


def _run(
    backend: Backend,
    request: Request,
    operations: Sequence[tuple[str, Iterator[Outcome]]],
    only: str,
    wanted: Callable[[str, str], bool],
    last: LastFailed,
    first: bool,
) -> ConformanceReport:
    """Runs the cases, shows progress, prints and records failures; with `first` stops at the first
    one.
    """
    from rich.console import Console
    from rich.markup import escape

    from xlac.cli.progress import Progress
    from xlac_sdk.conformance import run

    failed = 0
    with Progress(f"the cases of {backend.name}") as progress:

        def step(case: str, done: int, whole: int) -> None:
            progress.count(f"{case}{f' ({failed} failed)' if failed else ''}", done, whole)

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
        )


def _operations(
    backend: Backend, request: Request, only: str, chosen: Callable[[str, str], bool]
) -> Iterator[tuple[str, Iterator[Outcome]]]:
    """The operations to test, each with its outcomes as they finish; all cases of an operation
    share one run.
    """
    from xlac.ops import OPS

    for mnemonic in sorted(OPS):
        if only in mnemonic and chosen(OPERATION + mnemonic, "") and OPS[mnemonic].samples():
            yield mnemonic, _outcomes(mnemonic, OPS[mnemonic], backend, request)


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


def _outcomes(mnemonic: str, op: Any, backend: Backend, request: Request) -> Iterator[Outcome]:
    from xlac.debug.conformance import outcomes
    from xlac_sdk.conformance import Outcome

    for outcome in outcomes(op, backend, request):
        yield Outcome(OPERATION + mnemonic, outcome.case, outcome.status, outcome.detail)


def _print(report: ConformanceReport) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    marks = {
        "passed": "[green]✓[/]",
        "failed": "[red]✗[/]",
        "unsupported": "[yellow]○[/]",
        "left out": "-",
    }
    for title, rows in (
        ("Primitives", report.primitives()),
        ("Statements and steps", report.groups()),
        ("Operations", report.ops()),
    ):
        if not rows:
            continue
        table = Table(
            box=None, title=title, title_justify="left", title_style="bold", pad_edge=False
        )
        for column in ("", "name", "how", "passed", "failed", "unsupported", "left out"):
            table.add_column(column, justify="left" if column in ("", "name", "how") else "right")
        for row in rows:
            failed = f"[red]{row.failed}[/]" if row.failed else ""
            table.add_row(
                marks[row.status],
                escape(row.name),
                row.how,
                str(row.passed),
                failed,
                str(row.unsupported or ""),
                str(row.left_out or ""),
            )
        console.print(table)
        console.print()
    console.print(", ".join(f"{count} {what}" for what, count in report.totals().items()))
