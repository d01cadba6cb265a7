"""docs/SCHEDULES.md: its example runs, and its reference has every template and field."""

from __future__ import annotations

import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest

from xlac.codegen.schedules.document import Asked, read
from xlac.codegen.schedules.schedule import Least, kinds
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.debug import decisions
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

CHAPTER = Path(__file__).parents[3] / "docs" / "SCHEDULES.md"
START = "<!-- written by tests/codegen/schedules/test_schedules_docs.py --bless -->\n"


def blocks() -> list[str]:
    """The fenced blocks of the chapter: two specs, each with schedules."""
    return re.findall(r"```yaml\n(.*?)```", CHAPTER.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example(tmp_path: Path) -> None:
    spec, shown, *_ = blocks()
    file = tmp_path / "layer.yaml"
    file.write_text(spec)
    target = find("cpu").target(Request(cpu="x86-64-v3", triple="x86_64-unknown-linux-gnu"))
    made = lower(load(file), target)
    assert decisions.schedules(made) == shown
    given = tmp_path / "schedules.yaml"
    given.write_text(shown.replace("vectors: 3", "vectors: 1"))
    again = lower(load(file), target, wanted=read(given))
    assert decisions.kernels(again.program) != decisions.kernels(made.program)
    given.write_text(shown.replace("vectors: 3", "vectors: 5"))
    with pytest.raises(SourceError, match=re.escape(refusal())):
        lower(load(file), target, wanted=read(given))


def test_the_rewrite(tmp_path: Path) -> None:
    *_, spec, asked = blocks()
    file, schedules = tmp_path / "two.yaml", tmp_path / "schedules.yaml"
    file.write_text(spec)
    schedules.write_text(asked)
    target = find("cpu").target(Request(cpu="x86-64-v3", triple="x86_64-unknown-linux-gnu"))
    dots = [
        sum(node.op.mnemonic == "dot" for group in made.partition.groups for node in group.nodes)
        for made in (lower(load(file), target, wanted=read(one)) for one in (None, schedules))
    ]
    assert dots == [2, 1]
    text = decisions.schedules(lower(load(file), target, wanted=Asked(every_rewrite=True)))
    assert asked.replace("applied", "left").removesuffix("schedules: {}\n") in text


def refusal() -> str:
    """What the chapter says of a tile that is too large."""
    (found,) = re.findall(r"does not fit: (it takes .*?) \[XL4112\]", CHAPTER.read_text())
    return str(found)


def reference() -> str:
    """Every template with its docstring and its fields."""
    lines = []
    for name, template in TEMPLATES.items():
        lines += [f"### `{name}`", "", inspect.cleandoc(template.__doc__ or ""), ""]
        lines += [f"* `{field}`: {_kind(kind)}" for field, kind in kinds(template).items()] + [""]
    return "\n".join(lines)


def _kind(kind: Any) -> str:
    arguments, origin = get_args(kind), get_origin(kind)
    if origin is Annotated:
        (least,) = (a for a in arguments if isinstance(a, Least))
        return f"a number from {least.value}"
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in arguments)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"a list, each {_kind(arguments[0])}"
        return f"a list of {len(arguments)}, each {_kind(arguments[0])}"
    if NoneType in arguments:
        return f"`null` or {_kind(next(a for a in arguments if a is not NoneType))}"
    if is_dataclass(kind):
        inner = "; ".join(f"`{n}`: {_kind(k)}" for n, k in kinds(kind).items())  # type: ignore[arg-type]
        return f"a mapping of {inner}"
    return {bool: "`true` or `false`", int: "a number"}.get(kind, "an element type (`f32`, …)")


def test_the_reference_has_every_field(request: pytest.FixtureRequest) -> None:
    text = CHAPTER.read_text(encoding="utf-8")
    head, mark, _ = text.partition(START)
    wanted = head + mark + "\n" + reference()
    if request.config.getoption("--bless"):
        CHAPTER.write_text(wanted, encoding="utf-8")
    assert mark and CHAPTER.read_text(encoding="utf-8") == wanted
