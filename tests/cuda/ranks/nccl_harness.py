"""Ranks that are threads, each with a stand-in GPU, between which the stand-in of NCCL carries
values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from cuda_harness import STANDIN, OnStandin

from xlac.driver import executable, lower
from xlac.ir.graph import Graph
from xlac.model import MeshSection, Model
from xlac.ops.collective.group import MeshAxes
from xlac.runtime.compiled import Compiled
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.target import Request

Result = TypeVar("Result")


class NcclStandin:
    """What the stand-in of NCCL says of itself."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(STANDIN.nccl))
        self._library.standin_nccl_complaint.restype = ctypes.c_char_p
        self._library.standin_nccl_alive.restype = ctypes.c_long

    @property
    def complaint(self) -> str:
        """The rule that the last refused call broke."""
        return bytes(self._library.standin_nccl_complaint()).decode()

    @property
    def alive(self) -> int:
        """Communicators that nobody has destroyed."""
        return int(self._library.standin_nccl_alive())


def by_ranks(size: int, run: Callable[[ThreadRank, OnStandin], Result]) -> list[Result]:
    """What a function gives on every rank, with the GPU of each."""
    return together(size, lambda rank: run(rank, OnStandin(device=rank.rank)))


def compiled(graph: Graph, mesh: MeshAxes, rank: ThreadRank, backend: OnStandin) -> Compiled:
    """A program of one rank, ready when all ranks have it."""
    model = Model(graph, {}, ranks=MeshSection(dict(mesh), rank=0))
    made = executable(lower(model, backend.target(Request())), backend)
    rank.settle()
    return made


def computed(graph: Graph, mesh: MeshAxes, arrays: dict[str, Any]) -> dict[str, Any]:
    """What every rank computes from its own arrays, with the axes of the mesh first."""
    sizes = tuple(size for _, size in mesh)

    def one(rank: ThreadRank, backend: OnStandin) -> dict[str, Any]:
        program = compiled(graph, mesh, rank, backend)
        place = np.unravel_index(rank.rank, sizes)
        got = program(**{name: array[place] for name, array in arrays.items()})
        return got if isinstance(got, dict) else {program.outputs[0]: got}

    made = by_ranks(int(np.prod(sizes)), one)
    return {n: np.stack([m[n] for m in made]).reshape(*sizes, *made[0][n].shape) for n in made[0]}
