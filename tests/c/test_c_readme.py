"""The example of the README, as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from c_harness import ROOT, needs, run

from xlac.cli import status


def test_the_example_of_the_chapter(tmp_path: Path) -> None:
    needs("cc")
    text = (ROOT / "backends" / "c" / "README.md").read_text()
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0]
    program = re.findall(r"```c\n(.*?)```", text, re.DOTALL)[0]
    build, compile_ = commands.splitlines()
    _, verb, spec, *rest, folder = shlex.split(build)
    assert status([verb, str(ROOT / spec), *rest, str(tmp_path / folder)]) == 0
    (tmp_path / "main.c").write_text(program)
    run(*shlex.split(compile_), cwd=tmp_path)
    lines = run("./recognise", cwd=tmp_path).splitlines()
    assert len(lines) == 10 and abs(sum(float(line.split()[1]) for line in lines) - 1) < 0.01
