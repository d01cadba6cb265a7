"""Merges programs of one model: general steps for any sizes, and specialized steps for chosen
ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.fingerprint import fingerprint
from xlac_sdk.programs.program import Case, Choice, Launch, Program, Role, Slot, Step, touched, walk
from xlac_sdk.programs.rewrite import with_slots, with_unique_kernels

# roles whose memory is shared by all variants; unnamed state belongs to one kernel
FIXED = (Role.INPUT, Role.OUTPUT, Role.STATE)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A program of the model with these of its sizes fixed; it may leave others open."""

    sizes: Mapping[str, int]
    program: Program


def merged(general: Program, variants: Sequence[Variant]) -> Program:
    """`general`, extended to run the steps of the first variant whose sizes match a call's.

    Inputs, outputs and state are those of `general`, matched by name, so callers do not depend on
    which variant ran. Constants with equal data are stored once. Temporaries keep their planned
    offsets in one arena.
    """
    merging = Merging(general)
    cases = tuple(merging.case(number, variant) for number, variant in enumerate(variants, 1))
    programs = (general, *(variant.program for variant in variants))
    live = max(program.facts["live_bytes"] for program in programs)
    return replace(
        general,
        slots=tuple(merging.slots),
        steps=(Choice(cases, general.steps),),
        constants=merging.constants,
        arena_bytes=max(program.arena_bytes for program in programs),
        state_bytes=merging.state_bytes,
        facts={**general.facts, "live_bytes": live},
    )


class Merging:
    """Programs being merged: their slots, the data of constants, and kernels by name."""

    def __init__(self, general: Program) -> None:
        self.general = general
        self.slots = list(general.slots)
        self.state_bytes = general.state_bytes
        self.moved = 0  # bytes of state added by variants, behind the general program's
        self.fixed = {(slot.role, slot.name): slot for slot in general.slots if slot.role in FIXED}
        self.constants = dict(general.constants)
        self.held = {
            fingerprint(self.constants[s.symbol]): s
            for s in general.slots
            if s.role is Role.CONSTANT
        }
        self.kernels = {kernel.name: kernel for kernel in general.kernels}

    def case(self, number: int, variant: Variant) -> Case:
        """The steps of a variant, guarded by its sizes."""
        steps = self.steps(f"case{number}", variant.program)
        sizes = tuple(
            (symbol, variant.sizes[symbol.name])
            for symbol in self.general.sizes
            if symbol.name in variant.sizes
        )
        return Case(sizes, steps)

    def steps(self, prefix: str, program: Program) -> tuple[Step, ...]:
        """The steps of a program over the merged slots; slots of this program alone get names with
        `prefix`.
        """
        program = with_unique_kernels(program, self.kernels)
        named = [s for s in program.slots if s.role is Role.STATE and s.name]
        shared = max((-(-(s.offset + s.nbytes) // s.align) * s.align for s in named), default=0)
        self.moved = self.state_bytes - shared
        slots = {slot: self.slot(prefix, slot, program) for slot in program.slots}
        self.state_bytes += program.state_bytes - shared
        return with_slots(program.steps, slots)

    def slot(self, prefix: str, slot: Slot, program: Program) -> Slot:
        """The merged slot for a program's slot."""
        if slot.role is Role.STATE and not slot.name:  # each program has its own memory
            return self.added(prefix, replace(slot, offset=self.moved + slot.offset))
        if slot.role in FIXED:
            return self.fixed[slot.role, slot.name]
        if slot.role is Role.TEMPORARY:
            return self.added(prefix, slot)
        data = program.constants[slot.symbol]
        key = fingerprint(data)
        if key not in self.held:
            self.held[key] = self.added(prefix, slot)
            self.constants[self.held[key].symbol] = data
        return self.held[key]

    def added(self, prefix: str, slot: Slot) -> Slot:
        """Adds a slot, named with the prefix."""
        self.slots.append(replace(slot, symbol=f"{prefix}_{slot.symbol}"))
        return self.slots[-1]


# ---- the cost of variants ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Own:
    """What a program holds for one variant alone: kernels, and bytes of weights packed
    differently.
    """

    title: str
    kernels: int
    weights: int


def own(program: Program) -> Iterator[Own]:
    """The cost of each variant of a program, in the order in which they are tried."""
    for step in walk(program.steps):
        if isinstance(step, Choice):
            kernels, slots = _kernels(step.otherwise), touched(step.otherwise)
            for case in step.cases:
                more = (slot for slot in touched(case.steps) - slots if slot.role is Role.CONSTANT)
                yield Own(
                    case.title,
                    len(_kernels(case.steps) - kernels),
                    sum(slot.nbytes for slot in more),
                )


def _kernels(steps: tuple[Step, ...]) -> set[Kernel]:
    return {step.kernel for step in walk(steps) if isinstance(step, Launch)}
