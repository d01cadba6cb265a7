"""All that a report shows, as one JSON document; `schema.json` describes it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from xlac.debug import profile
from xlac.debug.report.fused_groups import groups_json, places
from xlac.debug.report.kernel_code import assembly_of, code_of
from xlac.debug.report.measured import ceilings_json, errors_json, times_json
from xlac.debug.report.memory_plan import memory_json
from xlac.debug.report.pass_changes import PassRecorder
from xlac.debug.report.spec_text import SpecText
from xlac.debug.report.stage_times import StageTimes
from xlac.debug.report.written_graph import GraphTree
from xlac.debug.verify.verification import Verification
from xlac.driver import Lowered
from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.runtime.compiled import Compiled
from xlac_sdk.backend import Backend
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.machine.processor_info import processor_info
from xlac_sdk.programs.program import Launch, walk
from xlac_sdk.source import Origin

SCHEMA = "xlac-report-1"

DOCUMENT = "report.json"
"""The file of the document in a folder that `xlac build --dump` wrote."""


@dataclass
class ReportData:
    """What a report is made of: a lowered model, the graph that it was made from, and what was
    noted while it was compiled.
    """

    lowered: Lowered
    written: Graph
    backend: Backend
    passes: PassRecorder
    stages: StageTimes
    text: SpecText = field(default_factory=SpecText)
    times: dict[str, Any] | None = None
    ceilings: dict[str, Any] | None = None
    verification: Verification | None = None

    def measure(
        self, inputs: Sequence[Array], seconds: float, begin: Callable[[Compiled], object]
    ) -> None:
        """Measures the time of each kernel for some seconds, and the machine's ceilings."""
        self.measured(profile.take(self.lowered, self.backend, inputs, seconds, begin))

    def measured(self, times: profile.Profile) -> None:
        """Takes the times of a profile, and measures the machine's ceilings."""
        self.times = times_json(times, self.text)
        self.ceilings = ceilings_json(self.lowered, self.backend)

    def json(self) -> dict[str, Any]:
        """The document. Sections of what was not measured or verified are null."""
        program, target = self.lowered.program, self.lowered.target
        graph = GraphTree(self.written, self.text).json(self.written)
        return {
            "schema": SCHEMA,
            "model": {
                "name": program.name,
                "target": target.name,
                "device": target.device,
                "threads": target.threads,
                "precision": self.lowered.model.precision,
                "flops": program.work.flops,
                "bytes": program.work.bytes,
                "machine": _machine(),
                "version": version("xlac"),
            },
            "graph": graph,
            "groups": groups_json(self.lowered, self.text),
            "passes": self.passes.json(),
            "memory": memory_json(program),
            "kernels": kernels_json(self.lowered, self.backend, self.text),
            "times": self.times,
            "ceilings": self.ceilings,
            "errors": errors_json(self.verification),
            "stages": self.stages.json(self.passes.passes),
            "files": self.text.json(),
        }


def kernels_json(lowered: Lowered, backend: Backend, text: SpecText) -> list[dict[str, Any]]:
    """The section `kernels`: each with its text, source, assembly (null where the target has none)
    and the lines that it computes.
    """
    program = lowered.program
    origins: dict[str, dict[Origin, None]] = {}
    launches: dict[str, int] = {}
    for step in walk(program.every_step):
        if isinstance(step, Launch):
            name = step.kernel.name
            launches[name] = launches.get(name, 0) + 1
            origins.setdefault(name, {}).update(dict.fromkeys(step.origins))
    names = set(origins)
    source = code_of(backend.emit(program, lowered.target), names)
    asm = getattr(backend, "asm", None)
    assembly = assembly_of(asm(program, lowered.target), names) if asm else {}
    return [
        {
            "name": kernel.name,
            "launches": launches[kernel.name],
            "flops": kernel.work.flops,
            "bytes": kernel.work.bytes,
            "text": show(kernel),
            "source": source.get(kernel.name),
            "assembly": assembly.get(kernel.name),
            "computes": list(dict.fromkeys(o.name for o in origins[kernel.name])),
            "places": places(text, origins[kernel.name]),
        }
        for kernel in program.kernels
    ]


def _machine() -> str:
    """The processor and the system, as far as the system says."""
    return " ".join(filter(None, (platform.system(), platform.machine(), _processor())))


def _processor() -> str:
    info = processor_info()
    return info.get("model name", "") if info else platform.processor()
