"""Every `xlac …` that a message, a help text or a chapter tells a user to type is a command that
there is, with options that it has.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from xlac.cli import VERBS, root

ROOT = Path(__file__).parents[2]
PLACES = ["toolchain", "backend_sdk", "backends", "runtime", "docs", "examples", "bench"]
FILES = sorted(
    file
    for place in [*PLACES, "README.md", "SECURITY.md"]
    for file in ([ROOT / place] if place.endswith(".md") else (ROOT / place).rglob("*"))
    if file.suffix in {".py", ".md", ".txt", ".j2", ".yaml"}
    and not any(part.startswith(".") or part == "vendor" for part in file.parts)
)
QUOTED = re.compile(r"`(xlac [^`]*)`")
TYPED = re.compile(r"^ *(?:\$ )?(xlac [^#\n]*)", re.MULTILINE)


def commands(file: Path) -> Iterator[str]:
    """The commands in a file: in backticks, and in its blocks of shell commands."""
    text = file.read_text(encoding="utf-8")
    for found in QUOTED.findall(text):
        yield re.sub(r'"\s*\n\s*f?"|\s*\n\s*(?:# |#: )?', " ", found)
    if file.suffix == ".md":
        for block in re.findall(r"```(?:sh|bash|console)?\n(.*?)```", text, re.DOTALL):
            yield from TYPED.findall(block.replace("\\\n", " "))


def unknown(line: str) -> str | None:
    """What of a command line does not exist: its verb, or one of its options."""
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        words = line.split()[1:]
    command: click.Command = root
    options = set()
    for word in words:
        if word in {"|", "&&", ";", ">", "||"}:
            break
        context = click.Context(command)
        options |= {
            name for one in command.get_params(context) for name in [*one.opts, *one.secondary_opts]
        }
        if word.startswith("--"):
            name = re.split(r"[=|,]", word)[0].rstrip(".…:;)")
            if name not in options | {"--help", "--version", "--"}:
                return name
        elif isinstance(command, click.Group) and not word.startswith("-"):
            if not re.fullmatch(r"[a-z-]+", word):
                return None  # a placeholder
            below = command.get_command(context, word)
            if below is None:
                return word
            command = below
    return None


CASES = [(file.relative_to(ROOT).as_posix(), line) for file in FILES for line in commands(file)]


def test_texts_name_commands_and_options_that_exist() -> None:
    wrong = [f"{file}: {line}: {what}" for file, line in CASES if (what := unknown(line))]
    assert len(CASES) > 300 and not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("xlac cache forget", "forget"),
        ("xlac biuld x.yaml", "biuld"),
        ("xlac run x.yaml --otuputs y", "--otuputs"),
        ("xlac backend test toy --only=steps --fsat", "--fsat"),
        ("xlac cache clear", None),
        ("xlac NAME", None),
    ],
)
def test_what_is_not_there_is_found(line: str, what: str | None) -> None:
    assert unknown(line) == what


def test_every_verb_is_in_a_chapter_or_the_readme() -> None:
    named = {
        words[1] for file, line in CASES if file.endswith(".md") and len(words := line.split()) > 1
    }
    assert not set(VERBS) - named
