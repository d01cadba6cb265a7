"""The walk in docs/DESIGN.md is the way that a build goes: its functions are called in its order,
each by the one that it hangs under.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from test_design_names import DESIGN, ROOT, located, prose

from xlac.cli import status


@dataclass(frozen=True)
class Stop:
    """A function, or a class by its methods, that the walk comes to, and the number of the one that
    calls it.
    """

    file: str
    name: str
    caller: int | None

    def is_in(self, frame: FrameType) -> bool:
        """Whether a frame is a call of it; a class's body, and its construction, are none."""
        code = frame.f_code
        if code.co_filename != self.file or not code.co_flags & CO_OPTIMIZED:
            return False
        return self.name in code.co_qualname.split(".") and code.co_name != "__init__"


def walk() -> list[Stop]:
    """The stops in the order of the page. The first of an item calls those of the items inside."""
    text = prose(DESIGN).partition("## A walk")[2].partition("\n## ")[0]
    found: list[Stop] = []
    above: list[tuple[int, int]] = []  # indentation and number of the items around
    for item in re.split(r"\n(?= *\d+\. )", text)[1:]:
        item = item.partition("\n\n")[0]
        indent = len(item) - len(item.lstrip())
        above = [pair for pair in above if pair[0] < indent]
        caller = above[-1][1] if above else None
        above.append((indent, len(found)))
        for path, name in re.findall(r"`([\w./]+\.py)`\s+`(\w+)`", item):
            file = located(path)
            assert file is not None, path
            found.append(Stop(str(file), name, caller))
    return found


def test_the_walk_is_the_way_of_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    monkeypatch.chdir(ROOT)
    stops = walk()
    assert len(stops) > 25
    waiting: dict[str, list[int]] = {}
    for number, stop in enumerate(stops):
        waiting.setdefault(stop.file, []).append(number)
    reached: list[int] = []
    lost: list[str] = []

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_filename not in waiting:
            return
        for number in waiting[frame.f_code.co_filename]:
            stop = stops[number]
            if number not in reached and stop.is_in(frame):
                reached.append(number)
                around = frame.f_back
                while stop.caller is not None and around and not stops[stop.caller].is_in(around):
                    around = around.f_back
                if around is None:
                    lost.append(f"{stop.file} {stop.name}")

    sys.setprofile(called)
    try:
        # smaller than BERT's, and the same way: packing weights and LLVM are what takes the time;
        # of a processor with a small second-level cache, which attention's scores exceed
        sizes = [
            "--cpu",
            "x86-64-v3",
            "--dim",
            "sequence=160",
            "--set",
            "hidden=128",
            "--set",
            "heads=2",
            "--set",
            "ffn=256",
        ]
        code = status(["build", "specs/bert_layer.yaml", *sizes, "-o", str(tmp_path / "out")])
    finally:
        sys.setprofile(None)
    assert code == 0
    assert [stops[n] for n in range(len(stops)) if n not in reached] == []
    assert lost == [], "the walk hangs these under what does not call them"
    assert reached == sorted(reached), [(stops[n].file, stops[n].name) for n in reached]
