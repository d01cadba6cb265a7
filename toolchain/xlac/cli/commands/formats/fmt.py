"""`xlac fmt`: specs in canonical form."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(name="fmt")
@click.argument("specs", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if something would change.")
@click.option("--diff", is_flag=True, help="Print what would change instead of writing it.")
def command(specs: tuple[Path, ...], check: bool, diff: bool) -> int:
    """Rewrite SPECS in canonical form, comments kept; '-' reads standard input and writes standard
    output.
    """
    import difflib

    from xlac.spec.text.format import canonical
    from xlac.spec.text.yaml import read
    from xlac_sdk.source import Diagnostic, SourceError

    changed = 0
    faults: list[Diagnostic] = []
    for path in specs:
        try:
            if str(path) == "-":
                click.echo(canonical(Path("standard input"), sys.stdin.read()), nl=False)
                continue
            text = read(path).text
            formatted = canonical(path, text)
        except SourceError as error:
            faults += error.diagnostics
            continue
        if formatted == text:
            continue
        changed += 1
        if diff:
            lines = difflib.unified_diff(
                text.splitlines(True), formatted.splitlines(True), str(path), f"{path} (formatted)"
            )
            click.echo("".join(lines), nl=False)
        elif check:
            click.echo(f"{path} is not in canonical form")
        else:
            _replace(path, formatted)
    if faults:
        raise SourceError(*faults)
    return 1 if changed and (check or diff) else 0


def _replace(path: Path, text: str) -> None:
    """Replaces the file by a new one written beside it, so that the old one survives a full
    disk.
    """
    from xlac.support.whole_files import replacing

    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
