"""`xlac backend`: the installed backends, what each can do, a new one, and the test of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xlac.cli.backends.backend_test import test
from xlac.cli.backends.backend_tune import tune
from xlac.cli.processes import in_own_process

if TYPE_CHECKING:
    from xlac_sdk.target import Target


@click.group(name="backend")
def command() -> None:
    """List, describe, create, test and tune backends."""


@command.command("list")
def list_() -> None:
    """List the installed backends, each tried in a process of its own; one that cannot be loaded is
    shown with the reason and harms no other.
    """
    from concurrent.futures import ThreadPoolExecutor

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from xlac_sdk.host.registry import installed

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("backend", "vectors", "threads", "native primitives", "claims", "status"):
        table.add_column(title)
    with ThreadPoolExecutor() as pool:
        for name, row in zip(installed(), pool.map(_row_apart, installed()), strict=True):
            table.add_row(escape(name), *row)
    Console().print(table)


def _row_apart(name: str) -> list[str]:
    """A backend's row, as a process of its own makes it."""
    program = "import sys; from xlac.cli.commands.backend import print_row; print_row(sys.argv[1])"
    line, code = in_own_process(program, name)
    return ["", "", "", "", f"[red]broken[/]: {line}"] if code is None else json.loads(line)


def print_row(name: str) -> None:
    """Prints what `xlac backend list` shows of a backend beside its name, as JSON."""
    from rich.markup import escape

    from xlac_sdk.host.registry import find
    from xlac_sdk.source import XlacError
    from xlac_sdk.target import Request

    backend = None
    try:
        backend = find(name)
        target = backend.target(Request())
    except XlacError as error:
        what = "[red]broken[/]" if backend is None else "[yellow]not here[/]"
        row = ["", "", "", "", f"{what}: {escape(error.diagnostics[0].message)}"]
    except Exception as error:  # plug-ins may raise anything
        problem = escape(f"{type(error).__name__}: {error}")
        row = ["", "", "", "", f"[red]broken[/]: {problem}"]
    else:
        width = f"{target.vector_bytes * 8} bits" if target.vector_bytes else "scalar"
        native, claims = len(target.primitives), len(target.claims)
        row = [width, str(target.threads), str(native), str(claims), "[green]ok[/]"]
    click.echo(json.dumps(row))


@command.command()
@click.argument("name")
@click.option(
    "--arch", default="", help="The GPU architecture to describe (sm_90a); default this machine's."
)
def info(name: str, arch: str) -> None:
    """Describe NAME: the facts of its target, what it spells itself and what the SDK expands for
    it.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from xlac.cli.commands.doctor import described
    from xlac.support.tuned_facts import tuned_facts
    from xlac_sdk.host.registry import find
    from xlac_sdk.kernel_ir.primitives import Primitive
    from xlac_sdk.target import Request

    backend = find(name)
    target = backend.target(Request(arch=arch, tuned=tuned_facts()))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    expanded = [p.value for p in Primitive if p not in target.primitives]
    rows = {
        "package": type(backend).__module__.partition(".")[0],
        "machine": described(target),
        "features": " ".join(
            f[1:] for f in str(target.machine.get("features", "")).split(",") if f[:1] == "+"
        )
        or "none",
        "vectors": f"{target.vector_bytes} bytes, {target.vector_registers} registers"
        if target.vector_bytes
        else "none",
        "threads": str(target.threads),
        "caches": " · ".join(
            f"{n >> 10} KiB" for n in (target.l1_bytes, target.l2_bytes, target.l3_bytes)
        ),
        "facts": _facts(target),
        "native": " ".join(p.value for p in Primitive if p in target.primitives),
        "expanded": " ".join(expanded) or "nothing",
        "lacks": " ".join(sorted(f"{p.value}:{d.value}" for p, d in target.lacks)) or "nothing",
        "dtypes": " ".join(sorted(d.value for d in target.dtypes)),
        "claims": " ".join(sorted(target.claims)) or "nothing",
        "instructions": " ".join(sorted(target.instructions)) or "none",
    }
    rows |= device_rows(target)
    for key, value in rows.items():
        table.add_row(key, escape(value))
    Console().print(table)


def device_rows(target: Target) -> dict[str, str]:
    """What schedules read of a device's threads, and the limits of its launches and its memory."""
    rows = {}
    if target.device == "gpu":
        rows["gpu"] = (
            f"warps of {target.warp}, {target.block_threads} threads a block, "
            f"{target.shared_bytes >> 10} KiB shared, accesses of {target.access_bytes} bytes, "
            f"{target.thread_bytes} bytes of a thread at once, {target.processors} processors"
        )
    limits = {
        "blocks": target.most_blocks,
        "rows of blocks": target.most_rows if target.most_rows > 1 else 0,
        "buffers": target.most_buffers,
        "lanes of a vector": target.most_lanes,
    }
    rows["at most"] = ", ".join(f"{n} {what}" for what, n in limits.items() if n) or "any number"
    rows["alignment"] = f"of allocations {target.storage_alignment}, of places {target.alignment}"
    return rows


def _facts(target: Target) -> str:
    """The hardware facts of a target beside its caches, and which of them were measured."""
    now, before = target.hardware.to_json(), target.shipped.hardware.to_json()
    words = [
        f"{name} {value}{'' if value == before[name] else ' (measured)'}"
        for name, value in now.items()
        if name not in ("l1_bytes", "l2_bytes", "l3_bytes")
    ]
    return ", ".join(words)


@command.command()
@click.argument("name")
@click.option(
    "-o",
    "--output",
    "parent",
    type=click.Path(path_type=Path),
    default=Path(),
    help="The folder to write into.",
)
def new(name: str, parent: Path) -> None:
    """Write an installable backend NAME that passes conformance as it is."""
    from xlac_sdk.skeleton import create

    files = create(name, parent)
    folder = parent / f"xlac-{name}"
    for file in files:
        click.echo(f"  {file}")
    click.echo(
        f"next: pip install -e {folder} && xlac backend test {name}, then read "
        f"{folder / 'README.md'}"
    )


command.add_command(test)
command.add_command(tune)
