"""Several programs of one model as one: steps for chosen sizes beside those for any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.fingerprint import fingerprint
from xlac_sdk.programs.program import Case, Choice, Launch, Program, Role, Slot, Step, touched, walk
from xlac_sdk.programs.rewrite import with_kernels, with_slots

# memory that is the same whatever runs; state without a name is a kernel's
FIXED = (Role.INPUT, Role.OUTPUT, Role.STATE)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A program of the model with these of its sizes fixed; it may leave others open."""

    sizes: Mapping[str, int]
    program: Program


def merged(general: Program, variants: Sequence[Variant]) -> Program:
    """`general`, which runs the steps of the first variant that has the sizes of a call.

    Inputs, outputs and state are `general`'s, found by name: callers, and the next call, need not
    know what ran. Constants of equal data are kept once. Temporaries stay where each program's plan
    put them, in one arena.
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
    """Programs that become one: the slots so far, the data of constants, and kernels by name."""

    def __init__(self, general: Program) -> None:
        self.general = general
        self.slots = list(general.slots)
        self.state_bytes = general.state_bytes
        self.moved = 0  # how far the state of its own goes, behind that of the others
        self.fixed = {(slot.role, slot.name): slot for slot in general.slots if slot.role in FIXED}
        self.constants = dict(general.constants)
        self.held = {
            fingerprint(self.constants[s.symbol]): s
            for s in general.slots
            if s.role is Role.CONSTANT
        }
        self.kernels = {kernel.name: kernel for kernel in general.kernels}

    def case(self, number: int, variant: Variant) -> Case:
        """The steps of a variant, for calls that have its sizes."""
        steps = self.steps(f"case{number}", variant.program)
        sizes = tuple(
            (symbol, variant.sizes[symbol.name])
            for symbol in self.general.sizes
            if symbol.name in variant.sizes
        )
        return Case(sizes, steps)

    def steps(self, prefix: str, program: Program) -> tuple[Step, ...]:
        """The steps of a program over the slots of all; those that it alone has begin with
        `prefix`.
        """
        program = with_kernels(program, self.kernel)
        named = [s for s in program.slots if s.role is Role.STATE and s.name]
        shared = max((-(-(s.offset + s.nbytes) // s.align) * s.align for s in named), default=0)
        self.moved = self.state_bytes - shared
        slots = {slot: self.slot(prefix, slot, program) for slot in program.slots}
        self.state_bytes += program.state_bytes - shared
        return with_slots(program.steps, slots)

    def kernel(self, kernel: Kernel) -> Kernel:
        """The kernel, under a name that no other has."""
        name, count = kernel.name, 1
        while self.kernels.get(name, kernel) is not kernel:
            count += 1
            name = f"{kernel.name}_{count}"
        return self.kernels.setdefault(
            name, kernel if name == kernel.name else replace(kernel, name=name)
        )

    def slot(self, prefix: str, slot: Slot, program: Program) -> Slot:
        """The slot that stands for one of a program's."""
        if slot.role is Role.STATE and not slot.name:  # each program has its own
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
        """One more slot."""
        self.slots.append(replace(slot, symbol=f"{prefix}_{slot.symbol}"))
        return self.slots[-1]


# ---- what variants cost ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Own:
    """What a program has for one variant and not for other sizes: kernels, and bytes of weights
    laid out otherwise.
    """

    title: str
    kernels: int
    weights: int


def own(program: Program) -> Iterator[Own]:
    """For each variant of a program, in the order in which they are tried."""
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
