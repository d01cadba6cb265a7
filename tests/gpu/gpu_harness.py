"""A GPU without a device: a target with the facts of a small one, whose programs the SDK's
interpreter runs.

The interpreter runs the threads of a block in step, and faults on barriers that some never reach,
on accesses out of bounds and on shared memory that was never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.codegen.gpu.reduction.arrival_counter import FENCE, TICKET
from xlac.driver import Lowered, lower
from xlac.ir.dims import Dim, Symbol, evaluate, symbols
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac.passes.specialize import substituted
from xlac_sdk.backend import Backend, Executable
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request, Target

Array = NDArray[Any]

SMALL = Target(
    "small-gpu",
    warp=32,
    block_threads=64,
    shared_bytes=48 << 10,
    access_bytes=16,
    processors=2,
    hardware=MachineFacts(l2_bytes=1 << 20),
    primitives=frozenset(Primitive),
)
"""Two multiprocessors and small blocks: what a large GPU does with millions of elements, this one
does with hundreds.
"""

LARGE = Target(
    "large-gpu",
    warp=32,
    block_threads=1024,
    shared_bytes=227 << 10,
    access_bytes=16,
    processors=132,
    hardware=MachineFacts(l2_bytes=50 << 20),
    fma=True,
    primitives=frozenset(Primitive),
    instructions=frozenset({FENCE, TICKET}),
)


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


def param(name: str, shape: tuple[Dim, ...], dtype: DType = DType.F32) -> Node:
    return Node.of(Param(name, Type(dtype, shape), "input"))


def apply(mnemonic: str, *operands: Node, **attributes: Any) -> Node:
    """An operation of one result."""
    found = build.apply(mnemonic, *operands, **attributes)
    assert isinstance(found, Node)
    return found


def lowered(*outputs: Node, target: Target = LARGE, precision: str = "default") -> Lowered:
    """The program of some nodes; open sizes stay open."""
    return lower(Model(graph_of(outputs), {}, dims=_dims(outputs), precision=precision), target)


def graph_of(outputs: tuple[Node, ...]) -> Graph:
    return Graph("tested", _inputs(outputs), {f"o{k}": node for k, node in enumerate(outputs)})


def _inputs(outputs: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(n for n in walk(outputs) if isinstance(n.op, Param))


def _dims(outputs: tuple[Node, ...]) -> dict[str, Symbol]:
    return {s.name: s for n in _inputs(outputs) for size in n.shape for s in symbols(size)}


def given(outputs: tuple[Node, ...], sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Values for the inputs of some nodes, of moderate size, by name."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for node in _inputs(outputs):
        assert isinstance(node.op, Param)
        shape, dtype = tuple(evaluate(n, sizes) for n in node.shape), node.type.dtype
        top = 2 if dtype is DType.BOOL else 50
        values = rng.standard_normal(shape) if dtype.is_float else rng.integers(0, top, shape)
        found[node.op.name] = np.asarray(values).astype(dtype.numpy)
    return found


def run(
    program: Program, feeds: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """The outputs of a verified program, for inputs by name."""
    verify_program(program)
    outputs = {s.name: np.zeros(s.extents(sizes or {}), s.dtype.numpy) for s in program.outputs}
    Interpreter(program).run(feeds, outputs)
    return outputs


def agree(
    *outputs: Node,
    target: Target = SMALL,
    feeds: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    rtol: float = 2e-5,
    precision: str = "default",
) -> Program:
    """The program for a GPU computes what the graph means in float64; returns it."""
    lowering = lowered(*outputs, target=target, precision=precision)
    sizes = sizes or {}
    feeds = given(outputs, sizes) if feeds is None else feeds
    wanted = interpret(substituted(graph_of(outputs), sizes), feeds, {}, float64=True)
    for name, found in run(lowering.program, feeds, sizes).items():
        exact = np.asarray(wanted[name], np.float64)
        tolerance = 2e-2 if found.dtype.itemsize == 2 and found.dtype.kind not in "iu" else rtol
        scale = float(np.abs(exact[np.isfinite(exact)]).max(initial=1.0))
        np.testing.assert_allclose(
            np.asarray(found, np.float64), exact, rtol=tolerance, atol=tolerance * scale
        )
    return lowering.program
