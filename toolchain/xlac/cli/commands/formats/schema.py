"""`xlac schema`: the JSON Schema of specs, for editors."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="schema")
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Write here instead of the terminal."
)
def command(spec: Path | None, output: Path | None) -> None:
    """Print the JSON Schema of the spec language; with SPEC, its own operations too."""
    import json

    from xlac.spec.report import Report
    from xlac.spec.schema.document import read_document
    from xlac.spec.schema.json_schema import json_schema

    custom = {}
    if spec is not None:
        report = Report()
        merged = read_document(spec, report)
        report.finish()
        custom = {name: entry.spec for name, entry in merged.ops.items()} if merged else {}
    text = json.dumps(json_schema(custom), indent=1, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
