"""Programs that call cuBLASLt, on a library that stands in for it and computes on the CPU, through
the real ctypes layer.

Sizes from which a call is worth it are put aside: every dot product that the library can say is one
call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from cuda_harness import ARCH, STANDIN, OnStandin
from numpy.typing import NDArray

from xlac.driver import executable, lower
from xlac.ir.dims import Symbol, evaluate, symbols
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac.passes.specialize import substituted
from xlac.runtime.compiled import Compiled
from xlac_cuda.backend import CudaBackend
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.program import Call
from xlac_sdk.target import Request, Target

Array = NDArray[Any]
F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
BOUNDS = {F32: 1e-5, F16: 2e-3, BF16: 1.6e-2}  # on results of order 1: one rounding to the type
OF_TF32 = {**BOUNDS, F32: 2e-3}


class Library:
    """What the stand-in was asked for."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(STANDIN.cublaslt))
        self._library.standin_cublaslt_complaint.restype = ctypes.c_char_p
        self._library.standin_cublaslt_count.restype = ctypes.c_long

    def __call__(self, what: str) -> int:
        return int(self._library.standin_cublaslt_count(what.encode()))

    @property
    def complaint(self) -> str:
        return bytes(self._library.standin_cublaslt_complaint()).decode()


class Asked:
    """Outputs compiled for an H100, or this machine's GPU, for which every product is large; closed
    when the test is done.
    """

    backend: ClassVar[CudaBackend] = OnStandin()
    arch: ClassVar[str] = f"{ARCH}+cublaslt"
    bounds: ClassVar[Mapping[DType, float]] = BOUNDS

    def __init__(self, *outputs: Node, precision: str = "default") -> None:
        self.inputs = tuple(n for n in walk(outputs) if isinstance(n.op, Param))
        self.graph = Graph("asked", self.inputs, {f"o{k}": node for k, node in enumerate(outputs)})
        dims: dict[str, Symbol] = {
            s.name: s for n in self.inputs for size in n.shape for s in symbols(size)
        }
        self.lowered = lower(Model(self.graph, {}, dims=dims, precision=precision), self.target())
        self.compiled: Compiled = executable(self.lowered, self.backend)

    def target(self) -> Target:
        made = self.backend.target(Request(arch=self.arch))
        return replace(
            made,
            products=frozenset(
                replace(known, least=1, flops=1, workspace=4096) for known in made.products
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.compiled.executable.close()  # type: ignore[attr-defined]

    @property
    def calls(self) -> int:
        return sum(isinstance(step, Call) for step in self.lowered.program.steps)

    def drawn(self, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
        rng = np.random.default_rng(seed)
        return {
            n.op.name: (rng.standard_normal([evaluate(e, sizes) for e in n.shape]) / 2).astype(
                n.type.dtype.numpy
            )  # type: ignore[attr-defined]
            for n in self.inputs
        }

    def agrees(self, feeds: Mapping[str, Array] | None = None, **sizes: int) -> None:
        """What the program gives is what the graph means in float64, rounded once."""
        feeds = self.drawn(sizes) if feeds is None else feeds
        wanted = interpret(substituted(self.graph, sizes), feeds, {}, float64=True)
        found = self.compiled(**feeds)
        for (name, node), array in zip(
            self.graph.outputs.items(), found if isinstance(found, tuple) else (found,), strict=True
        ):
            exact, bound = np.asarray(wanted[name], np.float64), self.bounds[node.type.dtype]
            np.testing.assert_allclose(np.asarray(array, np.float64), exact, rtol=bound, atol=bound)


def x(name: str, *shape: Any, dtype: DType = F32) -> Node:
    return build.param(name, dtype, shape)


def linear(dtype: DType, rows: int, depth: int, columns: int, *, bias: bool = True) -> Node:
    weights = (
        x("w", columns, depth, dtype=dtype),
        *([x("b", columns, dtype=dtype)] if bias else []),
    )
    return build.apply1(
        "linear", x("x", rows, depth, dtype=dtype), *weights, units=columns, bias=bias
    )
