"""docs/CHANGING.md says what works: each section is done to a copy of the compiler, its blocks
applied as they stand, and its check is run there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "CHANGING.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
NEEDED = {"Add an ONNX operator": ("onnx",)}


@dataclass(frozen=True)
class Block:
    """What a fence holds, its language, and the first path in the text since the one before it;
    several changes after another are to the same file.
    """

    language: str
    text: str
    path: str


def blocks(section: str) -> Iterator[Block]:
    before, last = 0, ""
    for found in re.finditer(r"^( *)```(\w+)\n(.*?)^\1```$", section, re.MULTILINE | re.DOTALL):
        text = re.split(r"\n\d+\. |\nCheck:", section[before : found.start()])[-1]
        path = re.search(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`", text)
        lines = found[3].splitlines()
        body = "\n".join(line[len(found[1]) :] for line in lines) + "\n"
        last = path[1] if path else last
        yield Block(found[2], body, last if path or found[2] == "diff" else "")
        before = found.end()


def changed(text: str, changes: str) -> str:
    """A file's text after a block of changes, whose lines begin with a blank, - or +."""
    lines = changes.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    assert f"\n{text}".count(f"\n{old}") == 1, f"these lines are not there once:\n{old}"
    return text.replace(old, new)


class Copy:
    """A copy of the compiler in a folder, and the commands that are run there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.site = folder, folder / "site"
        shutil.copytree(ROOT / "toolchain", folder / "toolchain")
        (folder / "tests").symlink_to(ROOT / "tests")
        (folder / "docs").mkdir()
        shutil.copy(ROOT / "docs" / "ONNX.md", folder / "docs")
        paths = os.pathsep.join(
            [str(folder / "toolchain"), str(folder / "xlac-toy"), str(self.site)]
        )
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "PATH": tools,
            "XLAC_CACHE": str(folder / "cache"),
        }

    def located(self, path: str) -> Path:
        inside = self.folder / "toolchain" / "xlac" / path
        return inside if inside.parent.exists() else self.folder / path

    def apply(self, block: Block) -> None:
        match block.language:
            case "python" if block.path:
                file = self.located(block.path)
                assert not file.exists(), f"{block.path} is there already"
                file.write_text(block.text, "utf-8")
            case "diff":
                file = self.located(block.path)
                file.write_text(changed(file.read_text("utf-8"), block.text), "utf-8")
            case "python":
                where = f"import xlac\nassert xlac.__file__.startswith({str(self.folder)!r})\n"
                self.run([sys.executable, "-c", where + block.text])
            case "sh":
                for line in block.text.splitlines():
                    # into a folder, and not into this environment
                    quiet = (
                        f"{sys.executable} -m pip install -q --no-deps --no-build-isolation "
                        f"--no-index --upgrade -t {self.site}"
                    )
                    self.run(["sh", "-ec", line.replace("pip install -e", quiet)])
            case language:
                raise AssertionError(f"a block of {language}")

    def run(self, command: list[str]) -> None:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}"


@pytest.mark.sampled(9)
@pytest.mark.parametrize("title", SECTIONS)
def test_what_the_page_says_works(title: str, tmp_path: Path) -> None:
    for package in NEEDED.get(title, ()):
        pytest.importorskip(package)
    copy = Copy(tmp_path)
    steps = list(blocks(SECTIONS[title]))
    assert steps and steps[-1].language == "python" and not steps[-1].path, "it ends with a check"
    with pytest.raises(AssertionError):
        copy.apply(steps[-1])  # before anything is done the check fails
    for step in steps:
        copy.apply(step)
