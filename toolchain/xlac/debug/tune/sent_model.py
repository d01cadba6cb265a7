"""A model on its way to the process that measures: its graph as text, its weights as bytes, and how
it is lowered, in a folder.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlac.codegen.schedules.document import Asked
from xlac.debug.tune.stamped_model import TunedModel
from xlac.debug.tune.worker import serve as answer
from xlac.debug.verify.draws import random
from xlac.driver import Lowered, lower
from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.ir.text import parse, show
from xlac.memory.limit import MemoryLimit
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac.passes.pipeline import Pipeline
from xlac_sdk.host.registry import find
from xlac_sdk.target import Target

GRAPH, ABOUT = "graph.txt", "about.pickle"
KEPT = ("precision", "state", "kernels", "extents", "checks", "allow_kernels")
"""The fields of a model that are sent as they are."""
WORKER = "from xlac.debug.tune.sent_model import serve; serve()"


@dataclass(frozen=True, slots=True, eq=False)
class SentModel:
    """A model all of whose sizes are known, how it is lowered for the target of a backend, and
    arrays for some of its inputs.
    """

    model: Model
    target: Target
    backend: str
    passes: str
    memory: MemoryLimit | None
    inputs: Mapping[str, Array]

    def write(self, folder: Path) -> None:
        """Writes the model into an empty folder that no other user can write to."""
        (folder / GRAPH).write_text(show(self.model.graph), encoding="utf-8")
        for number, node in enumerate(_weights(self.model.graph)):
            array: Array = np.ascontiguousarray(self.model.weights[node.name])
            array.tofile(folder / str(number))
        kept = {name: getattr(self.model, name) for name in KEPT}
        rest = (self.target, self.backend, self.passes, self.memory, dict(self.inputs))
        (folder / ABOUT).write_bytes(pickle.dumps((kept, *rest)))

    @classmethod
    def read(cls, folder: Path) -> SentModel:
        """What was written; weights are mapped."""
        graph = parse((folder / GRAPH).read_text(encoding="utf-8"))
        kept, *rest = pickle.loads((folder / ABOUT).read_bytes())
        weights: dict[str, Array] = {}
        for number, param in enumerate(_weights(graph)):
            file, kind = folder / str(number), param.type
            data: Any = np.memmap(file, np.uint8, "r") if file.stat().st_size else np.empty(0, "u1")
            weights[param.name] = data.view(kind.dtype.numpy).reshape(kind.shape)
        return cls(Model(graph, weights, **kept), *rest)

    def tuned_model(self) -> TunedModel:
        """The model lowered, with random arrays for the inputs that none were given for."""
        memory = self.memory

        def lowered_with(asked: Asked | None) -> Lowered:
            pipeline = Pipeline.asked(self.passes)
            return lower(
                self.model, self.target, wanted=asked, pipeline=pipeline, memory=memory, every=False
            )

        lowered, generator = lowered_with(None), np.random.default_rng(0)
        inputs = [
            self.inputs[slot.name]
            if slot.name in self.inputs
            else random(slot.dtype, slot.extents({}), generator)
            for slot in lowered.program.inputs
        ]
        return TunedModel(lowered, lowered_with, find(self.backend), inputs, lambda compiled: None)


def _weights(graph: Graph) -> list[Param]:
    """The weights of a graph, by name."""
    params = {node.op for node in graph.nodes() if isinstance(node.op, Param)}
    return sorted((op for op in params if op.kind == "weight"), key=lambda op: op.name)


def serve() -> None:
    """The process that measures: reads the folder of the model, then requests. Standard output is
    for its answers alone.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints
    folder = Path(sys.stdin.readline().rstrip("\n"))
    answer(SentModel.read(folder).tuned_model(), sys.stdin, answers)
