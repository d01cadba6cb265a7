"""What cuDNN chose to compute a graph with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xlac_cuda.libraries.cudnn_names import Attribute

A = Attribute


Values = Mapping[Attribute, Any]


@dataclass(frozen=True, slots=True)
class CudnnMachine:
    """What plans are made for, as attributes: a handle, which is a GPU's, or what is known of a GPU
    that is not here.
    """

    graph: Values = field(default_factory=dict)
    heuristics: Values = field(default_factory=dict)
    engine: Values = field(default_factory=dict)
    plan: Values = field(default_factory=dict)

    @staticmethod
    def of(handle: int) -> CudnnMachine:
        """cuDNN by its handle."""
        return CudnnMachine(
            {A.OPERATIONGRAPH_HANDLE: handle}, plan={A.EXECUTION_PLAN_HANDLE: handle}
        )


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """An engine of the library, by its number, and what its knobs are set to."""

    engine: int
    knobs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph that is ready to run."""

    descriptor: int
    choice: PlanChoice
    workspace: int
