"""Writes the output of every stage into a folder: the graph after each pass that changed it,
groups, kernels, memory, sources. `xlac report` makes a page of the folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from xlac.debug import decisions
from xlac.debug.report.document import DOCUMENT, ReportData
from xlac.debug.report.pass_changes import PassRecorder
from xlac.debug.report.stage_times import PASS, StageTimes
from xlac.ir.graph import Graph

if TYPE_CHECKING:
    from xlac.driver import Lowered
    from xlac_sdk.backend import Backend

PASSES = "passes.json"


def pass_line(name: str, before: Graph, after: Graph, seconds: float) -> str:
    """One line on a pass: its time, and whether it changed the graph."""
    return f"{name:<25} {seconds * 1e3:9.2f} ms{'' if after is not before else '  (unchanged)'}"


class Dump:
    """An observer of the passes. Files are numbered in the order of the pipeline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.recorder = PassRecorder()
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, name: str, before: Graph, after: Graph, seconds: float) -> None:
        if self.count == 0:
            self.write("loaded.graph", before)
        self.count += 1
        if after is not before:
            self.write(f"{name}.graph", after)
        self.recorder(name, before, after, seconds)
        (self.folder / PASSES).write_text(json.dumps(self.recorder.json()), encoding="utf-8")
        with (self.folder / "passes.txt").open("a", encoding="utf-8") as log:
            log.write(f"{self.count:02} {pass_line(name, before, after, seconds)}\n")

    def write(self, name: str, graph: Graph) -> None:
        """Writes a graph to a file with the next number."""
        from xlac.ir.text import show

        (self.folder / f"{self.count:02}-{name}").write_text(show(graph), encoding="utf-8")

    @staticmethod
    def finish(folder: Path, lowered: Lowered, backend: Backend, written: Graph) -> None:
        """Writes the stages after the passes, and a report's document of all of them; `written` is
        the graph before the passes.
        """
        stages = {
            "fused.txt": decisions.fused(lowered),
            "kernels.txt": decisions.kernels(lowered.program),
            "memory.txt": decisions.memory(lowered.program),
        }
        for name, text in stages.items():
            (folder / name).write_text(text, encoding="utf-8")
        for name, text in backend.emit(lowered.program, lowered.target).items():
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        passes = json.loads((folder / PASSES).read_text(encoding="utf-8"))
        times = StageTimes([(f"{PASS}{one['name']}", one["seconds"]) for one in passes])
        data = ReportData(lowered, written, backend, PassRecorder(passes), times)
        (folder / DOCUMENT).write_text(json.dumps(data.json()) + "\n", encoding="utf-8")
