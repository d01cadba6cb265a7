"""Artefacts of the c target, compilers, and what a program says."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from xlac.cli import status
from xlac_c.source import api_of
from xlac_sdk.host.capi import Api, WeightsOrigin
from xlac_sdk.programs.program import Program

ROOT = Path(__file__).parents[2]
SPECS, EXAMPLES = ROOT / "specs", ROOT / "examples"
WARNINGS = ("-pedantic", "-Wall", "-Wextra", "-Werror")
COMPILERS = {
    "gcc": ("gcc", "-std=c99"),
    "clang": ("clang", "-std=c99"),
    "g++": ("g++", "-std=c++17", "-x", "c++"),
    "clang++": ("clang++", "-std=c++17", "-x", "c++"),
    "arm-none-eabi-gcc": ("arm-none-eabi-gcc", "-std=c99", "-mcpu=cortex-m4"),
}


def build(spec: str, folder: Path, *options: str) -> Path:
    """An artefact of a shipped spec (or of a file), in `folder`."""
    file = SPECS / f"{spec}.yaml" if not spec.endswith(".yaml") else Path(spec)
    assert status(["build", str(file), "--target", "c", "-o", str(folder), *options]) == 0
    return folder


def needs(*tools: str) -> None:
    """Skips where a tool is not installed."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")


def run(*command: object, cwd: Path | None = None) -> str:
    """What a command prints on its standard output; it must succeed."""
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (
        f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )
    return done.stdout


def symbols(file: Path, nm: str = "nm") -> tuple[set[str], set[str]]:
    """The global symbols that an object defines, and those that it asks others for."""
    defined, undefined = set(), set()
    for line in run(nm, file).splitlines():
        kind, name = line.split()[-2:]
        if kind == "U":
            undefined.add(name)
        elif kind.isupper():
            defined.add(name)
    return defined, undefined


def interface(program: Program, weights: WeightsOrigin = WeightsOrigin.EMBED) -> Api:
    return api_of(program, weights)


def flags(*given: Sequence[str]) -> list[str]:
    return [flag for group in given for flag in group]
