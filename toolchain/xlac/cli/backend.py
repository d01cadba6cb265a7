"""`xlac backend`: the installed backends, what each can do, a new one, and the test of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xlac_sdk.backend import Backend
    from xlac_sdk.conformance import Outcome


@click.group(name="backend")
def command() -> None:
    """List, describe, create and test backends."""


@command.command("list")
def list_() -> None:
    """List the installed backends; one that cannot be loaded is shown with the reason and harms no other."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from xlac_sdk.registry import find, installed
    from xlac_sdk.source import XlacError
    from xlac_sdk.target import Request

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("backend", "vectors", "threads", "native primitives", "claims", "status"):
        table.add_column(title)
    for name in installed():
        found = None
        try:
            found = find(name)
            target = found.target(Request())
        except XlacError as error:
            what = "[red]broken[/]" if found is None else "[yellow]not here[/]"
            table.add_row(escape(name), "", "", "", "", f"{what}: {escape(error.diagnostics[0].message)}")
            continue
        except Exception as error:  # a plug-in may do anything; listing it must not
            table.add_row(escape(name), "", "", "", "", f"[red]broken[/]: {escape(f'{type(error).__name__}: {error}')}")
            continue
        width = f"{target.vector_bytes * 8} bits" if target.vector_bytes else "scalar"
        native = str(len(target.primitives))
        table.add_row(escape(name), width, str(target.threads), native, str(len(target.claims)), "[green]ok[/]")
    Console().print(table)


@command.command()
@click.argument("name")
@click.option("--arch", default="", help="The GPU architecture to describe (sm_90a); default this machine's.")
def info(name: str, arch: str) -> None:
    """Describe NAME: the facts of its target, what it spells itself and what the SDK expands for it."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from xlac.cli.doctor import described
    from xlac_sdk.primitives import Primitive
    from xlac_sdk.registry import find
    from xlac_sdk.target import Request

    backend = find(name)
    target = backend.target(Request(arch=arch))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    expanded = [p.value for p in Primitive if p not in target.primitives]
    rows = {
        "package": type(backend).__module__.partition(".")[0],
        "machine": described(target),
        "features": " ".join(f[1:] for f in str(target.machine.get("features", "")).split(",") if f[:1] == "+") or "none",
        "vectors": f"{target.vector_bytes} bytes, {target.vector_registers} registers" if target.vector_bytes else "none",
        "threads": str(target.threads),
        "caches": " · ".join(f"{n >> 10} KiB" for n in (target.l1_bytes, target.l2_bytes, target.l3_bytes)),
        "native": " ".join(p.value for p in Primitive if p in target.primitives),
        "expanded": " ".join(expanded) or "nothing",
        "lacks": " ".join(sorted(f"{p.value}:{d.value}" for p, d in target.lacks)) or "nothing",
        "dtypes": " ".join(sorted(d.value for d in target.dtypes)),
        "claims": " ".join(sorted(target.claims)) or "nothing",
        "instructions": " ".join(sorted(target.instructions)) or "none",
    }
    if target.warp:
        rows["gpu"] = f"warps of {target.warp}, {target.block_threads} threads a block, {target.shared_bytes >> 10} KiB shared"
    for key, value in rows.items():
        table.add_row(key, escape(value))
    Console().print(table)


@command.command()
@click.argument("name")
@click.option("-o", "--output", "parent", type=click.Path(path_type=Path), default=Path(), help="The folder to write into.")
def new(name: str, parent: Path) -> None:
    """Write an installable backend NAME that passes conformance as it is."""
    from xlac_sdk.skeleton import create

    files = create(name, parent)
    folder = parent / f"xlac-{name}"
    for file in files:
        click.echo(f"  {file}")
    click.echo(f"next: pip install -e {folder} && xlac backend test {name}, then read {folder / 'README.md'}")


@command.command()
@click.argument("name")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Also write the report as a page.")
@click.option("--only", default="", metavar="TEXT", help="Only primitives, groups and operations whose name contains TEXT.")
@click.option("--kernels", is_flag=True, help="Leave the operations out.")
def test(name: str, html: Path | None, only: str, kernels: bool) -> int:
    """Test NAME on every primitive, statement and operation; the exit code is 1 when something fails."""
    from rich.console import Console

    from xlac_sdk.conformance import run
    from xlac_sdk.registry import find

    backend = find(name)
    console = Console()
    with console.status("") as status:
        found = run(
            backend, () if kernels else _operations(backend, only), only=only,
            progress=lambda case: status.update(case.replace("[", "\\[")),
        )  # fmt: skip
    _print(console, found)
    if html is not None:
        html.write_text(found.html(), encoding="utf-8")
        console.print(f"report: {html}", markup=False, highlight=False)
    return 0 if found.ok else 1


def _operations(backend: Backend, only: str) -> Iterator[tuple[str, Iterable[Outcome]]]:
    from xlac.debug.conformance import check
    from xlac.ops import OPS
    from xlac_sdk.conformance import Outcome

    for mnemonic in sorted(OPS):
        if only in mnemonic and OPS[mnemonic].samples():
            yield mnemonic, [Outcome(mnemonic, o.case, o.status, o.detail) for o in check(OPS[mnemonic], backend)]


def _print(console: object, found: object) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from xlac_sdk.conformance import Report

    assert isinstance(console, Console) and isinstance(found, Report)
    marks = {"passed": "[green]✓[/]", "failed": "[red]✗[/]", "unsupported": "[yellow]○[/]"}
    for title, rows in (("Primitives", found.primitives()), ("Statements and steps", found.groups()), ("Operations", found.ops())):
        if not rows:
            continue
        table = Table(box=None, title=title, title_justify="left", title_style="bold", pad_edge=False)
        for column in ("", "name", "how", "passed", "failed", "unsupported"):
            table.add_column(column, justify="left" if column in ("", "name", "how") else "right")
        for row in rows:
            failed = f"[red]{row.failed}[/]" if row.failed else ""
            table.add_row(marks[row.status], escape(row.name), row.how, str(row.passed), failed, str(row.unsupported or ""))
        console.print(table)
        console.print()
    for outcome in found.failed:
        console.print(f"[red]✗[/] {escape(outcome.case)}\n    {escape(outcome.detail)}", highlight=False)
    console.print(", ".join(f"{count} {what}" for what, count in found.totals().items()))
