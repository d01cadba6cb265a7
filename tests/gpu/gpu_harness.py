"""A GPU without a device: a target with the facts of a small one, whose programs the SDK's interpreter runs.

The interpreter runs the threads of a block in step, and faults on barriers that some never reach, on accesses out of
bounds and on shared memory that was never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.compiler import Lowered, lower
from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac_sdk.backend import Backend, Executable
from xlac_sdk.interpret import Interpreter
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Program
from xlac_sdk.target import Request, Target
from xlac_sdk.verify import verify_program

Array = NDArray[Any]

SMALL = Target(
    "small-gpu", warp=32, block_threads=64, shared_bytes=48 << 10, access_bytes=16, processors=2, l2_bytes=1 << 20,
    primitives=frozenset(Primitive),
)  # fmt: skip
"""Two multiprocessors and small blocks: what a large GPU does with millions of elements, this one does with hundreds."""

LARGE = Target(
    "large-gpu", warp=32, block_threads=1024, shared_bytes=227 << 10, access_bytes=16, processors=132, l2_bytes=50 << 20,
    fma=True, primitives=frozenset(Primitive),
)  # fmt: skip


class InterpretedGpu(Backend):
    """Runs the kernels of a GPU target in the interpreter."""

    name = "interpreted-gpu"

    def __init__(self, facts: Target = SMALL) -> None:
        self.facts = facts

    def target(self, request: Request) -> Target:
        return self.facts

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        verify_program(program)
        return {}

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        return folder

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return Interpreter(program)


def lowered(*outputs: Node, inputs: tuple[Node, ...], target: Target = LARGE) -> Lowered:
    """The program of some nodes."""
    graph = Graph("tested", inputs, {f"o{k}": node for k, node in enumerate(outputs)})
    return lower(Model(graph, {}), target)


def run(program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a verified program, for inputs by name."""
    verify_program(program)
    outputs = {s.name: np.zeros(static(s.shape), s.dtype.numpy) for s in program.outputs}
    Interpreter(program).run(feeds, outputs)
    return outputs
