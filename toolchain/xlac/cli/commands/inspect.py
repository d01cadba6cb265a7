"""`xlac inspect`: one stage of the compiler as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import (
    entry_option,
    memory_option,
    pass_options,
    schedule_option,
    spec_options,
    target_options,
)

STAGES = (
    "graph",
    "passes",
    "fused",
    "schedules",
    "kernels",
    "memory",
    "source",
    "asm",
    "resources",
)


@click.command(name="inspect")
@spec_options
@target_options
@schedule_option
@memory_option
@entry_option
@pass_options
@click.option(
    "--stage", type=click.Choice(STAGES), default="fused", show_default=True, help="What to print."
)
def command(stage: str, **options: Any) -> None:
    """Print a stage of compiling SPEC.

    The graph as loaded, the pipeline of passes, fused groups, schedules, kernels, memory, source,
    assembly, or what each kernel takes of a GPU.
    """
    from xlac.cli.models import open_model
    from xlac.debug import decisions
    from xlac.driver import lower
    from xlac.ir.text import show
    from xlac_sdk.host.registry import find

    choice = chosen(**options, usual="step")
    model = open_model(choice)
    if stage == "graph":
        click.echo(show(model.graph), nl=False)
        return
    if stage == "passes":
        click.echo(str(choice.pipeline))
        return
    backend = find(choice.target)
    facts = backend.target_for(choice.options.request)
    lowered = lower(
        model,
        facts,
        wanted=replace(choice.wanted, every_rewrite=stage == "schedules"),
        memory=choice.memory,
        pipeline=choice.pipeline,
        verify_each=choice.options.verify_each,
    )
    match stage:
        case "fused":
            click.echo(decisions.fused(lowered))
        case "schedules":
            click.echo(decisions.schedules(lowered), nl=False)
        case "kernels":
            click.echo(decisions.kernels(lowered.program))
        case "memory":
            click.echo(decisions.memory(lowered.program))
        case "source":
            for name, text in backend.emit(lowered.program, facts).items():
                click.echo(f"==> {name} <==")
                click.echo(text)
        case "asm" | "resources":
            shown = getattr(backend, stage, None)
            if shown is None:
                from xlac_sdk.source import Diagnostic, UnsupportedError

                what = "assembly" if stage == "asm" else "account of resources"
                raise UnsupportedError(
                    Diagnostic("XL5011", f"target '{choice.target}' has no {what} to show")
                )
            click.echo(shown(lowered.program, facts))
