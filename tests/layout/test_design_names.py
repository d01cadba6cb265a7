"""What docs/DESIGN.md, its chapters, docs/CHANGING.md and README.md's rooms name is there: files,
functions and classes, rooms and the arrows between them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import xlac

ROOT = Path(__file__).parents[2]
XLAC = ROOT / "toolchain" / "xlac"
PACKAGES = (XLAC, ROOT / "backend_sdk", ROOT / "runtime", ROOT / "backends")
BASES = (XLAC, ROOT, ROOT / "toolchain", ROOT / "backend_sdk", *(ROOT / "backends").iterdir())
DESIGN = ROOT / "docs" / "DESIGN.md"
PAGES = (DESIGN, *sorted((ROOT / "docs" / "design").glob("*.md")), ROOT / "docs" / "CHANGING.md")
PATH = re.compile(
    r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|txt|yaml|toml|c|ll|j2))|(tests|backends|bench)/[\w/]+"
)
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DEFINED = re.compile(
    r"^ *(?:def|class) +(\w+)|^ *(?:self\.)?(\w+)(?:: [^=\n]+)?(?: = |$)", re.MULTILINE
)
OF_THE_FIELD = {"NotImplemented", "PARALLEL", "NAME", "NCHW", "NHWC"}
"""Names that are not ours."""


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def quoted(page: Path) -> list[str]:
    """What a page has in backquotes."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def made(page: Path) -> set[str]:
    """The files that a page's blocks write, and a backend that its commands make."""
    text = page.read_text("utf-8")
    files = set(re.findall(r"`([^`]+)`:\n\n *```python$", text, re.MULTILINE))
    return files | {word for word in quoted(page) if word.startswith("xlac-toy/")}


def located(path: str) -> Path | None:
    """The file or folder that a page means by a path."""
    return next((base / path for base in BASES if (base / path).exists()), None)


def defined(text: str) -> set[str]:
    """Functions, classes, constants, fields and methods of a module."""
    return {name for names in DEFINED.findall(text) for name in names if name}


@cache
def modules() -> dict[str, list[set[str]]]:
    """What the modules of a stem define."""
    found: dict[str, list[set[str]]] = {}
    for package in PACKAGES:
        for file in package.rglob("*.py"):
            found.setdefault(file.stem, []).append(defined(file.read_text("utf-8")))
    return found


def unknown(name: str) -> bool:
    """Whether a name, dotted or not, is none of ours. A single lower-case word may be anything."""
    if located(name):
        return False
    head, _, rest = name.rpartition(".")
    everything = [names for several in modules().values() for names in several]
    if not head:
        special = "_" in name or any(c.isupper() for c in name)
        return special and not any(name in names for names in everything)
    if head == "xlac":
        return rest not in dir(xlac)
    if head in OF_THE_FIELD:
        return False
    if head in modules():
        return not any(rest in names for names in modules()[head])
    if head[:1].isupper():
        return not any({head, rest} <= names for names in everything)
    return head.startswith("xlac") and located(f"{name.replace('.', '/')}.py") is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_name_is_there(page: Path) -> None:
    for word in quoted(page):
        if PATH.fullmatch(word):
            assert located(word) or word in made(page), (
                f"{page.name} names {word}, which is not there"
            )
        elif NAME.fullmatch(word) and word not in OF_THE_FIELD:
            assert not unknown(word), f"{page.name} names {word}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_follows_a_file_is_in_it(page: Path) -> None:
    """`driver.py` `lower`: the function is that file's."""
    for path, name in re.findall(r"`([\w./]+\.py)`\s+`(\w+)`", prose(page)):
        file = located(path)
        assert file and name in defined(file.read_text("utf-8")), f"{path} has no {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", prose(page)):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_other_chapters_name_modules_that_are_there() -> None:
    """By the end of their path: in a chapter about a package its name is enough."""
    folders = ("toolchain", "backend_sdk", "runtime", "backends", "tests", "bench", "examples")
    paths = [f"/{p.as_posix()}" for folder in folders for p in (ROOT / folder).rglob("*.py")]
    chapters = [p for p in ROOT.glob("docs/*.md") if p not in PAGES]
    chapters += [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")]
    ends = {path[place.start() :] for path in paths for place in re.finditer("/", path)}
    for page in chapters:
        for word in re.findall(r"`([\w./-]*\w\.py)`", prose(page)):
            assert f"/{word}" in ends or "NAME_" in word, (
                f"{page.relative_to(ROOT)} names {word}, which is not there"
            )


# ---- rooms -------------------------------------------------------------------------------------


def rooms() -> dict[str, set[str]]:
    """The rooms that DESIGN.md has a section for, each with those that it may import."""
    text = prose(DESIGN)
    found: dict[str, set[str]] = {}
    for heading, body in re.findall(r"^### (.+)\n((?:(?!^#).*\n)*)", text, re.MULTILINE):
        allowed = re.search(r"^May import: (.+)\.$", body, re.MULTILINE)
        for name in re.findall(r"`(\w+)(?:/|\.py)`", heading) if allowed else ():
            assert allowed is not None
            found[name] = set() if allowed[1] == "nothing" else set(allowed[1].split(", "))
    return found


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Which rooms each room imports, anywhere in it."""
    found: dict[str, set[str]] = {}
    names = {p.stem for p in XLAC.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    for file in XLAC.rglob("*.py"):
        here = file.relative_to(XLAC).parts[0].removesuffix(".py")
        for module, several in re.findall(
            r"^ *(?:from|import) xlac\b\.?([\w.]*)(?: import ([^\n]+))?",
            file.read_text("utf-8"),
            re.MULTILINE,
        ):
            there = [module.partition(".")[0]] if module else re.findall(r"\w+", several)
            found.setdefault(here, set()).update(set(there) & names - {here})
    return {name: frozenset(found.get(name, ())) for name in names - {"__init__", "py"}}


def test_rooms_are_those_of_the_tree_and_import_what_the_page_says() -> None:
    told = rooms()
    assert set(told) == set(arrows())
    for room, allowed in told.items():
        if allowed != {"everything below"}:
            assert arrows()[room] <= allowed, f"{room} imports {arrows()[room] - allowed}"
            assert allowed <= set(told), f"{room} may import what is no room: {allowed - set(told)}"


LINE = re.compile(
    r'flowchart TD|end|subgraph \w+\["[^"]+"\]|\w+(\["[^"]+"\])?|\w+( --> \w+)+'
    r'|\w+ (-->|-\.->)\|"[^"]+"\| \w+(\["[^"]+"\])?'
)
"""The little of Mermaid's language that the pictures use:
https://mermaid.js.org/syntax/flowchart.html
"""


def pictures() -> Iterator[list[str]]:
    for text in re.findall(
        r"^```mermaid\n(.*?)^```$", DESIGN.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        yield text.splitlines()


def test_pictures_are_mermaid() -> None:
    for lines in pictures():
        assert lines[0] == "flowchart TD"
        for line in lines:
            assert LINE.fullmatch(line.strip()), f"no line of a flowchart: {line}"
        starts = [line for line in lines if line.strip().startswith("subgraph")]
        assert len(starts) == sum(line.strip() == "end" for line in lines)
        named = re.findall(r'^ *(\w+)\["', "\n".join(lines), re.MULTILINE)
        assert len(named) == len(set(named))
        assert not {"end", "graph", "class", "style", "default", "click"} & set(named)


def test_the_picture_of_the_rooms_is_true() -> None:
    *_, lines = pictures()
    text = "\n".join(lines)
    drawn = set(re.findall(r"\b\w+\b", re.sub(r'"[^"]*"', "", text)))
    assert set(arrows()) - drawn <= {"options", "settings", "diagnostics", "program_variants"}
    for chain in re.findall(r"^ *(\w+(?: --> \w+)+)$", text, re.MULTILINE):
        names = chain.split(" --> ")
        for above, below in itertools.pairwise(names):
            if {above, below} <= set(arrows()):
                assert below in arrows()[above], f"{above} does not import {below}"


def test_the_readme_names_folders_that_are_there() -> None:
    whole = (ROOT / "README.md").read_text("utf-8")
    text = whole.partition("## The packages")[2].partition("\n## ")[0]
    paths = [word for word in re.findall(r"`([^`\n]+)`", text) if PATH.fullmatch(word)]
    assert len(paths) > 8
    for path in paths:
        assert located(path), f"README.md names {path}"
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
