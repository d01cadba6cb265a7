"""The `xlac` command: one module per verb, imported when the verb is used."""

from __future__ import annotations

import sys
from importlib import import_module
from keyword import iskeyword

import click

INTERRUPTED = 130
VERBS = {
    "check": "Check a spec and show its shapes, parameters, flops and memory.",
    "build": "Compile a spec to an artefact.",
    "run": "Compile a spec and run it on given, random or zero inputs.",
    "train": "Train a spec on files, with metrics and checkpoints; or resume a run.",
    "verify": "Compare a compiled spec with its definition in float64, node by node.",
    "bench": "Time a compiled spec.",
    "profile": "Show which kernels and lines of a spec take the time.",
    "tune": "Search faster schedules for a spec by measuring them.",
    "report": "Write a page that shows graph, kernels, memory and times of a spec.",
    "explain": "Show which kernel computes each node and why, or explain an error code.",
    "map": "Run a model over the rows of files, by many processes.",
    "plan": "Search how to divide a spec among many processes, on paper.",
    "inspect": "Print one stage: graph, fused, kernels, memory, source or asm.",
    "import": "Write a model of another framework as a spec and its weights.",
    "export": "Write a model as ONNX or StableHLO.",
    "simplify": "Write an ONNX model with fewer operators.",
    "expand": "Write a spec with its blocks unrolled and types shown.",
    "fmt": "Rewrite specs in canonical form, comments kept.",
    "schema": "Print the JSON Schema of the spec language.",
    "ops": "List the operations, or describe one.",
    "backend": "List, describe, create and test backends.",
    "cache": "List, explain and clear the compiled programs kept on disk.",
    "bisect": "Find the rewrite that broke a result.",
    "reduce": "Shrink a failing spec.",
    "doctor": "Check this installation.",
}

FORMATS = ("import", "export", "simplify", "expand", "fmt", "schema")
ROOMS = {
    **dict.fromkeys(("verify", "bisect", "reduce"), "faults"),
    **dict.fromkeys(FORMATS, "commands.formats"),
}
"""The packages of verbs that are not in `commands`."""


class Verbs(click.Group):
    """Loads a verb's module when it is used, so that `--help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, in the order of `--help`."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb, importing its module."""
        if cmd_name not in VERBS:
            return None
        room = ROOMS.get(cmd_name, "commands")
        module = import_module(f"xlac.cli.{room}.{cmd_name}{'_' * iskeyword(cmd_name)}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists all verbs with their one-line help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb on the command line; a usage error that suggests the nearest one for an unknown
        verb.
        """
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from xlac_sdk.support.choices import nearest

            hint = nearest(args[0], VERBS, "")
            ctx.fail(f"no command '{args[0]}'" + (f"; {hint}" if hint else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="xlac", prog_name="xlac")
def root() -> None:
    """xlac compiles models: a YAML spec becomes fast native code."""


def main() -> None:
    """Runs the command. Exit codes: 0 fine, 1 a comparison failed, 2 the user's mistake, 3
    unsupported on this target, 4 a resource limit, 70 our bug, 130 interrupted, 143 a run of
    training that SIGTERM ended.
    """
    code = status()
    # exits at once: freeing a large model object by object takes seconds
    if code == INTERRUPTED:
        import atexit
        import os

        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(code)
    sys.exit(code)


def status(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code; failures are printed on standard error."""
    try:
        code = root.main(arguments, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return 2
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has closed it
        return 0
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    from xlac.cli.backends.foreign_backend import told
    from xlac_sdk.source import XlacError

    if isinstance(error, XlacError):
        click.echo(str(error), err=True)
        return error.exit_code
    if isinstance(error, ImportError):
        from xlac.support.extras import missing

        if (explained := missing(error)) is not None:
            click.echo(str(explained), err=True)
            return explained.exit_code
    if isinstance(error, MemoryError):
        click.echo("error: out of memory [XL4001]", err=True)
        return 4
    full = isinstance(error, OSError) and error.errno in (28, 122)  # ENOSPC, EDQUOT
    if not full and (problem := told(error)) is not None:
        import traceback

        click.echo(traceback.format_exc(), err=True)
        hint = "its author can help; an error that users can mend should be one of xlac_sdk.source"
        click.echo(f"error: {problem} [XL5007]\n    hint: {hint}", err=True)
        return 70
    if isinstance(error, OSError):
        place = error.filename2 or error.filename  # the destination, where a copy failed
        name = f"{place}: " if place else ""
        click.echo(
            f"error: {name}{error.strerror or error} [{'XL4002' if full else 'XL3001'}]", err=True
        )
        return 4 if full else 2
    import traceback

    click.echo(traceback.format_exc(), err=True)
    click.echo(
        "error: this is a bug in xlac; please report it with the text above [XL9001]", err=True
    )
    return 70
