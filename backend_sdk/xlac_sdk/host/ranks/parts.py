"""One program for all ranks of a mesh, built ahead of time, and what distinguishes its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.kernel_ir.text import show
from xlac_sdk.programs.constants import weights_hash
from xlac_sdk.programs.exchange_checks import MESH
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.text import show_program
from xlac_sdk.support.hashing import blake2b


@dataclass(frozen=True, slots=True)
class DividedArray:
    """How an input or an output is divided among ranks: the shape of the whole, and for each of its
    axes the mesh axes among whose ranks it is divided. Along the mesh axes `partial` ranks hold
    summands of it.
    """

    shape: tuple[int, ...]
    axes: tuple[tuple[str, ...], ...]
    partial: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RankParts:
    """The ranks of a program: all have its steps, and differ in constants. Or each stage of a
    pipeline has steps of its own.

    `programs` has one for each different set of constants, `part_of` for each rank the number of
    its set; `arrays` says by name how inputs and outputs are divided. Ranks along `stage_axis` of
    the mesh, where there is one, are the stages of a pipeline.
    """

    programs: tuple[Program, ...]
    part_of: tuple[int, ...]
    arrays: Mapping[str, DividedArray]
    stage_axis: str = ""

    @property
    def mesh(self) -> tuple[tuple[str, int], ...]:
        """The axes of the mesh and their sizes; ranks are numbered in row-major order."""
        return tuple((str(name), int(size)) for name, size in self.programs[0].facts[MESH])

    @cached_property
    def stage_of(self) -> tuple[int, ...]:
        """The stage of each program; () where there are no stages."""
        if not self.stage_axis:
            return ()
        names = [name for name, _ in self.mesh]
        sizes = [size for _, size in self.mesh]
        axis = names.index(self.stage_axis)
        firsts = (self.part_of.index(number) for number in range(len(self.programs)))
        return tuple(int(np.unravel_index(rank, sizes)[axis]) for rank in firsts)

    @property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the programs of each stage, which differ in constants alone."""
        if not self.stage_of:
            return (tuple(range(len(self.programs))),)
        return tuple(
            tuple(number for number, one in enumerate(self.stage_of) if one == stage)
            for stage in sorted(set(self.stage_of))
        )

    @property
    def firsts(self) -> tuple[Program, ...]:
        """The first program of each stage."""
        return tuple(self.programs[numbers[0]] for numbers in self.stages)

    @cached_property
    def digest(self) -> int:
        """Names what ranks do together, and their weights, in 48 bits."""
        weights = list(map(weights_hash, self.programs))
        steps = "\n".join(map(_text, self.firsts))
        text = f"{self.mesh}\n{self.part_of}\n{weights}\n{steps}"
        return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big")

    @cached_property
    def varying(self) -> frozenset[str]:
        """The symbols of constants that are not the same on all ranks."""
        return frozenset(
            symbol
            for numbers in self.stages
            for symbol, array in self.programs[numbers[0]].constants.items()
            if not all(_same(array, self.programs[n].constants[symbol]) for n in numbers[1:])
        )


def differing(programs: Iterable[Program]) -> int | None:
    """The number of the first program whose steps, kernels or memory are not those of the one
    before all; None where all are the same but for constants.
    """
    first, *others = map(_text, programs)
    return next((number for number, text in enumerate(others, 1) if text != first), None)


def _text(program: Program) -> str:
    kernels = "\n".join(map(show, program.kernels))
    return f"{show_program(program)}\n{program.state_bytes}\n{kernels}"


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether the bytes of two arrays are the same."""
    first, second = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (one, other))
    return np.array_equal(first, second)
