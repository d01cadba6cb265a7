"""`xlac doctor`: checks the installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from xlac.cli.processes import in_own_process

if TYPE_CHECKING:
    from xlac_sdk.source import XlacError
    from xlac_sdk.target import Target


@click.command(name="doctor")
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the rates of this machine's caches and memory, for later compilations.",
)
@click.option("--target", default="", help="Try only this target, in this process.")
def command(measure: bool, target: str) -> int:
    """Check this installation: versions, backends, compilers; compile and run a tiny model on each
    target, in a process of its own, so that a broken driver harms no other.

    With --measure do nothing but measure this machine, some seconds; what was steady is kept until
    it is measured again, and later compilations for this machine choose schedules by it.
    """
    if measure:
        return _measure()
    if target:
        message, fine = _said(target)
        click.echo(message)
        return 0 if fine else 1
    import platform
    import shutil
    import sys
    from importlib.metadata import PackageNotFoundError, version

    from xlac.support.released import released
    from xlac_sdk.host.registry import installed

    click.echo(f"python     {sys.version.split()[0]} on {platform.machine()} {platform.system()}")
    for name in ("xlac", "xlac-sdk", "numpy", "pydantic", "pyyaml", "jinja2", "llvmlite", "onnx"):
        try:
            click.echo(f"{name:<10} {version(name)}")
        except PackageNotFoundError:
            click.echo(f"{name:<10} not installed")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    click.echo(f"C compiler {compiler or 'none (only the c target needs one)'}")
    healthy = True
    for name in installed():
        message, fine = _apart(name)
        healthy &= fine
        click.echo(f"target {name:<12} {message}")
    for name in released():
        if name not in installed():
            click.echo(f"target {name:<12} not installed: pip install xlac[{name}]")
            healthy &= name != "cpu"
    return 0 if healthy else 1


def _apart(target: str) -> tuple[str, bool]:
    """What a process of its own says of a target, and whether that is in order; of one that does
    not end well or in time, that.
    """
    program = "import sys; from xlac.cli import status; sys.exit(status(sys.argv[1:]))"
    line, code = in_own_process(program, "doctor", "--target", target)
    return (f"FAILS: {line}", False) if code is None else (line, code == 0)


def _said(target: str) -> tuple[str, bool]:
    """What a target is, or why not, and whether that is in order."""
    from xlac_sdk.source import XlacError

    try:
        return _try(target), True
    except Absent as error:
        return f"not here: {error}", True
    except XlacError as error:
        if any(one.code == "XL5004" for one in error.diagnostics):  # no C compiler, say
            return f"not here: {message_with_hint(error)}", True
        return f"FAILS: {message_with_hint(error)}", False
    except Exception as error:  # a plug-in may fail in any way
        return f"FAILS: {type(error).__name__}: {error}", False


def _measure() -> int:
    """Measures, shows and stores facts of this machine; fails where no measurement was steady."""
    from xlac.support.measure import keep
    from xlac.support.measure import measure as measured
    from xlac_sdk.host.registry import find

    measurement = measured(find("cpu"), click.echo)
    if not measurement.facts:
        click.echo(
            "no measurement was steady, so the stored facts are unchanged; measure on an "
            "idle machine"
        )
        return 1
    file = keep(measurement)
    click.echo(", ".join(f"{name} {value:g}" for name, value in sorted(measurement.facts.items())))
    click.echo(f"kept in {file}")
    return 0


def message_with_hint(error: XlacError) -> str:
    """What is wrong, and what to do about it."""
    first = error.diagnostics[0]
    return f"{first.message}; {first.hint}" if first.hint else first.message


class Absent(Exception):
    """This machine lacks the target's hardware, which no installation could change."""


def _try(target: str) -> str:
    """Compiles and runs a small model; returns a description of the target, or raises."""
    import numpy as np

    from xlac.api import compile
    from xlac.ir.graph import Graph, Node
    from xlac.ir.types import Type
    from xlac.model import Model
    from xlac.ops import build
    from xlac.ops.tensor.leaf import Param
    from xlac_sdk.dtypes import DType
    from xlac_sdk.host.registry import find
    from xlac_sdk.source import UnsupportedError
    from xlac_sdk.target import Request

    backend = find(target)
    try:
        backend.target(Request())
    except UnsupportedError as error:
        raise Absent(message_with_hint(error)) from None
    x = Node.of(Param("x", Type(DType.F32, (5, 7))))
    y = build.apply("softmax", x, axis=-1)
    assert isinstance(y, Node)
    model = Model(Graph("doctor", (x,), {"y": y}), {})
    compiled = compile(model, target)
    total = compiled(np.arange(35, dtype=np.float32).reshape(5, 7)).sum()
    if not np.isclose(total, 5):
        raise ArithmeticError(f"rows of a softmax sum to {total / 5:g}, and not to 1")
    facts = getattr(compiled, "target", None)
    return f"works ({described(facts)})" if facts else "works"


def described(target: Target) -> str:
    """A short description of a target's machine."""
    machine = target.machine
    return (
        ", ".join(str(machine[key]) for key in ("cpu", "triple", "arch") if machine.get(key))
        or target.name
    )
