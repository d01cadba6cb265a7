"""A program under verification: compiled, with taps where possible, and how it is run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xlac.debug.errors.sums import Promise
from xlac.debug.verify.taps import Tapped, tapped
from xlac.driver import Lowered, agreed, executable, lower
from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac.runtime.compiled import Compiled
from xlac_sdk.backend import Backend
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target


def promise_of(target: Target, model: Model) -> Promise:
    """The error bounds that hold for a model on a target."""
    cores = target.device == "gpu" and bool(getattr(target, "tensor_cores", False))
    return Promise(target.device, cores, model.precision == "fast")


def ran(compiled: Compiled, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """All outputs of a call from the initial state, in full."""
    program: Program = compiled.program
    compiled.reset()
    out = {s.name: np.zeros(s.extents({}), s.dtype.numpy) for s in program.outputs}
    compiled.run({s.name: inputs[s.name] for s in program.inputs}, out)
    return out


def built_anew(lowered: Lowered, backend: Backend) -> Compiled:
    """Compiles a program now, ignoring the cache."""
    lowered = agreed(lowered, backend)
    program, target = lowered.program, lowered.target
    with tempfile.TemporaryDirectory(prefix="xlac-", ignore_cleanup_errors=True) as folder:
        artifact = backend.build(backend.emit(program, target), Path(folder))
        return Compiled(program, target, backend.load(artifact, program, target))


def states_of(graph: Graph) -> dict[str, Array]:
    """The initial value of every state: zeros."""
    return {
        n.op.name: np.zeros(static(n.type.shape), n.type.dtype.numpy)
        for n in graph.nodes()
        if isinstance(n.op, Param) and n.op.kind == "state"
    }


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal to the bit, where all NaNs count as equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.tobytes() == b.tobytes():
        return True
    one, other = (x.reshape(-1).view(f"u{x.itemsize}") for x in (a, b))
    return bool(((one == other) | (np.isnan(a) & np.isnan(b)).reshape(-1)).all())


@dataclass(eq=False)
class VerifiedProgram:
    """A model compiled for a target; `taps` is the reason, as text, where taps are impossible."""

    model: Model
    backend: Backend
    lowered: Lowered
    compiled: Compiled
    taps: Tapped | str
    with_taps: Compiled | None

    @classmethod
    def of(
        cls, model: Model, target: Target, backend: Backend, taps: bool = True
    ) -> VerifiedProgram:
        """Compiles a model whose sizes are all known."""
        lowered = lower(model, target)
        compiled = executable(lowered, backend)
        tapped_program: Tapped | str = tapped(lowered) if taps else "nobody asked for them"
        with_taps = None
        if isinstance(tapped_program, Tapped):
            with_taps = executable(replace(lowered, program=tapped_program.program), backend)
        return cls(model, backend, lowered, compiled, tapped_program, with_taps)

    @property
    def target(self) -> Target:
        """The target that it is compiled for."""
        return self.lowered.target

    @property
    def promise(self) -> Promise:
        """The error bounds that hold."""
        return promise_of(self.target, self.model)

    def tapped_run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], dict[Node, Array]]:
        """The outputs of the program with taps, and the value of each tapped node. Needs taps."""
        assert isinstance(self.taps, Tapped) and self.with_taps is not None
        out = ran(self.with_taps, inputs)
        return out, {node: out[name] for node, name in self.taps.after.items()}
