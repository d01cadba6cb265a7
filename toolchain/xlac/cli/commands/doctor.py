"""`xlac doctor`: checks the installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xlac_sdk.source import XlacError
    from xlac_sdk.target import Target


@click.command(name="doctor")
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the rates of this machine's caches and memory, for later compilations.",
)
def command(measure: bool) -> int:
    """Check this installation: versions, backends, compilers; compile and run a tiny model on each
    target.

    With --measure do nothing but measure this machine, some seconds; what was steady is kept until
    it is measured again, and later compilations for this machine choose schedules by it.
    """
    if measure:
        return _measure()
    import platform
    import shutil
    import sys
    from importlib.metadata import PackageNotFoundError, version

    from xlac.support.released import released
    from xlac_sdk.host.registry import installed
    from xlac_sdk.source import XlacError

    click.echo(f"python     {sys.version.split()[0]} on {platform.machine()} {platform.system()}")
    for name in ("xlac", "xlac-sdk", "numpy", "pydantic", "pyyaml", "jinja2", "llvmlite", "onnx"):
        try:
            click.echo(f"{name:<10} {version(name)}")
        except PackageNotFoundError:
            click.echo(f"{name:<10} not installed")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    click.echo(f"C compiler {compiler or 'none (only the c target needs one)'}")
    healthy = True
    for target in installed():
        try:
            message = _try(target)
        except Absent as error:
            message = f"not here: {error}"
        except XlacError as error:
            message, healthy = f"FAILS: {message_with_hint(error)}", False
        except Exception as error:  # plug-ins may fail in any way; the others are still tried
            message, healthy = f"FAILS: {type(error).__name__}: {error}", False
        click.echo(f"target {target:<12} {message}")
    for target in released():
        if target not in installed():
            click.echo(f"target {target:<12} not installed: pip install xlac[{target}]")
            healthy &= target != "cpu"
    return 0 if healthy else 1


def _measure() -> int:
    """Measures, shows and stores facts of this machine; fails where no measurement was steady."""
    from xlac.debug.measure import keep
    from xlac.debug.measure import measure as measured
    from xlac_sdk.host.registry import find

    measurement = measured(find("cpu"), click.echo)
    if not measurement.facts:
        click.echo("nothing was steady: what was kept before stays; measure on an idle machine")
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
        return f"WRONG: rows of a softmax sum to {total / 5}"
    facts = getattr(compiled, "target", None)
    return f"works ({described(facts)})" if facts else "works"


def described(target: Target) -> str:
    """A short description of a target's machine."""
    machine = target.machine
    return (
        ", ".join(str(machine[key]) for key in ("cpu", "triple", "arch") if machine.get(key))
        or target.name
    )
