"""`xlac expand`: a spec with its blocks unrolled and its types shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen, refuse_tensorflow
from xlac.cli.options import spec_options


@click.command(name="expand")
@spec_options
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Write here instead of the terminal."
)
def command(
    spec: Path,
    dim: tuple[str, ...],
    sets: tuple[str, ...],
    allow_outside: bool,
    signature: str,
    trusted: bool,
    output: Path | None,
) -> None:
    """Write SPEC with blocks unrolled, parameters put in and types shown; it loads to the same
    graph.
    """
    from xlac.exporters import spec as exporter
    from xlac.spec.load import load
    from xlac.spec.report import Report
    from xlac.spec.schema.document import read_document

    refuse_tensorflow("specs")
    options = chosen(spec, dim, sets, allow_outside).options
    model = load(
        spec,
        params=options.params,
        dims=options.dims,
        allow_outside=allow_outside,
        weights=False,
        training=True,
    )
    merged = read_document(spec, Report(), allow_outside)
    head: dict[str, Any] = {}
    if merged is not None and merged.weights is not None:
        place = merged.weights.place
        head["weights"] = place.source.find(place.path)[0].plain()
    if merged is not None and model.kernels:
        head["ops"] = {
            n: merged.ops[n].place.source.find(merged.ops[n].place.path)[0].plain()
            for n in model.kernels
        }
    text = exporter.text(model, head)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
