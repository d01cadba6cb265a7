"""The report of a conformance run in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xlac_sdk.conformance import ConformanceReport

REASONS = 8  # why cases are unsupported: at most so many are printed


def print_tables(report: ConformanceReport, only: str) -> None:
    """Prints the tables. A usage error where `only` names nothing, as no case was run."""
    if only and not report.outcomes and not any(report.operations.values()):
        raise click.UsageError(f"--only {only}: no primitive, group or operation is called so")
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
        for column in ("", "name", "how", "passed", "failed", "unsupported", "left out", "seconds"):
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
                f"{row.seconds:.1f}",
            )
        console.print(table)
        console.print()
    console.print(", ".join(f"{count} {what}" for what, count in report.totals().items()))
    _print_refusals(report)


def _print_refusals(report: ConformanceReport) -> None:
    """Prints why cases are unsupported, each reason once."""
    for number, (reason, count) in enumerate(report.refusals.items()):
        if number == REASONS:
            left = len(report.refusals) - REASONS
            click.echo(f"    and {left} more reasons: --html writes all")
            break
        click.echo(f"unsupported, {count} times: {reason}")
    if not report.ok and not report.failed:
        click.echo("nothing passed: every case was refused")
