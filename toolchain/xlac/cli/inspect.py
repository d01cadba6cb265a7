"""`xlac inspect`: one stage of the compiler as text."""

from __future__ import annotations

from typing import Any

import click

from xlac.cli.options import chosen, request, spec_options, target_options

STAGES = ("graph", "fused", "kernels", "memory", "source", "asm")


@click.command(name="inspect")
@spec_options
@target_options
@click.option("--stage", type=click.Choice(STAGES), default="fused", show_default=True, help="What to print.")
def command(stage: str, **options: Any) -> None:
    """Print a stage of compiling SPEC: the graph as loaded, fused groups, kernels, memory, source or assembly."""
    from xlac.cli.build import open_model
    from xlac.compiler import lower
    from xlac.debug import report
    from xlac.ir.text import show
    from xlac_sdk.registry import find

    choice = chosen(**options)
    model = open_model(choice)
    if stage == "graph":
        click.echo(show(model.graph), nl=False)
        return
    backend = find(choice.target)
    facts = backend.target(request(choice))
    lowered = lower(model, facts)
    match stage:
        case "fused":
            click.echo(report.fused(lowered))
        case "kernels":
            click.echo(report.kernels(lowered.program))
        case "memory":
            click.echo(report.memory(lowered.program))
        case "source":
            for name, text in backend.emit(lowered.program, facts).items():
                click.echo(f"==> {name} <==")
                click.echo(text)
        case "asm":
            asm = getattr(backend, "asm", None)
            if asm is None:
                from xlac_sdk.source import Diagnostic, UnsupportedError

                raise UnsupportedError(Diagnostic("XL5011", f"target '{choice.target}' has no assembly to show"))
            click.echo(asm(lowered.program, facts))
