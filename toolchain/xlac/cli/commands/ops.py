"""`xlac ops`: the operations, from their declarations."""

from __future__ import annotations

import click


@click.command(name="ops")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--coverage",
    is_flag=True,
    help="Show which importers and exporters support the operations, or NAME.",
)
def command(name: str | None, as_json: bool, coverage: bool) -> None:
    """List every operation, or describe NAME: its inputs, attributes and meaning."""
    import json

    from xlac.ir.op import summary
    from xlac.ops import OPS, reference
    from xlac_sdk.source import Diagnostic, SourceError
    from xlac_sdk.support.choices import nearest

    if name is None and coverage:
        from xlac.debug import op_coverage

        ways = op_coverage.coverage()
        text = json.dumps(ways, indent=1) if as_json else op_coverage.table(ways, sorted(OPS))
        click.echo(text)
        return
    if name is None:
        rows = {m: summary(op) for m, op in sorted(OPS.items())}
        if as_json:
            click.echo(json.dumps(rows, indent=1))
            return
        width = max(map(len, rows))
        for mnemonic, text in rows.items():
            click.echo(f"{mnemonic:<{width}}  {text}")
        return
    if name not in OPS:
        hint = nearest(name, OPS, "`xlac ops` lists them")
        raise SourceError(Diagnostic("XL2001", f"unknown operation '{name}'", hint=hint))
    if coverage:
        from xlac.debug import op_coverage

        for way, has in op_coverage.coverage()[name].items():
            click.echo(f"{way:<14} {has or '-'}")
        return
    click.echo(reference.describe(OPS[name]))
