"""cuDNN's execution plans, and the choices from which they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xlac_cuda.libraries.cudnn_names import Attribute

A = Attribute


Values = Mapping[Attribute, Any]


@dataclass(frozen=True, slots=True)
class CudnnMachine:
    """The device of plans, as attributes: a handle of a GPU, or the description of a GPU that is
    not present.
    """

    graph: Values = field(default_factory=dict)
    heuristics: Values = field(default_factory=dict)
    engine: Values = field(default_factory=dict)
    plan: Values = field(default_factory=dict)

    @staticmethod
    def of(handle: int) -> CudnnMachine:
        """The device of a cuDNN handle."""
        return CudnnMachine(
            {A.OPERATIONGRAPH_HANDLE: handle}, plan={A.EXECUTION_PLAN_HANDLE: handle}
        )


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """An engine of the library, by its number, and the settings of its knobs."""

    engine: int
    knobs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """An executable plan of a graph."""

    descriptor: int
    choice: PlanChoice
    workspace: int
