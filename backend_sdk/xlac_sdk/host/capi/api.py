"""The interface of a compiled program for C callers (names, types, bytes and status codes), derived
from the program.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlac_sdk.dims import Dim, evaluate
from xlac_sdk.emit.cdialect import KEYWORDS, comment
from xlac_sdk.host.capi.arguments import ArrayArgument, SizeArgument
from xlac_sdk.host.capi.entry_points import EntryPoints, entry_points
from xlac_sdk.host.capi.names import identifier, parameters
from xlac_sdk.host.capi.status import (
    UNKNOWN,
    DeviceStatus,
    EntryStatus,
    RankStatus,
    StateStatus,
    Status,
    StatusCode,
)
from xlac_sdk.host.state_sizes import sizes_of_state
from xlac_sdk.programs.constants import WeightsOrigin, file_bytes, weights_hash
from xlac_sdk.programs.program import RECORD, Program, Role
from xlac_sdk.programs.sizes import arena_ends

if TYPE_CHECKING:  # lazily imported: few programs have ranks
    from xlac_sdk.host.capi.ranks import RanksApi
    from xlac_sdk.host.device_c.driver import HostDriver

ALIGN = 64
MANY = 1000  # arrays from which on a function has a variant that takes them in a table
LONGEST = 400  # characters of a check's text


@dataclass(frozen=True, slots=True)
class Api:
    """The interface of one program. `prefix` begins every exported name.

    The context that a caller holds is `struct { unsigned char *memory; const unsigned char
    *weights; uint32_t ready; volatile uint32_t stop; }`, with `size_t memory_bytes` added where
    sizes are open, and `int64_t state_sizes[]`, the open sizes of the state: those of the first run
    since a reset, -1 before. `stop` is 1 from NAME_stop until a run has returned STOPPED; `ready`
    identifies the program, or marks a half-updated state. In the caller's memory the state comes
    first and then, at the next multiple of `align`, the arena.
    """

    prefix: str
    title: str
    inputs: tuple[ArrayArgument, ...]
    outputs: tuple[ArrayArgument, ...]
    sizes: tuple[SizeArgument, ...]
    weights: WeightsOrigin
    align: int
    arena_bytes: int
    state_bytes: int
    variants: tuple[str, ...]  # sizes with specialized code, safe in a comment
    weight_bytes: int  # of the file, header included; 0 without weights
    weights_hash: int
    tears: bool = False  # a stopped run may leave the state partly updated
    checks: tuple[str, ...] = ()  # for checked programs: the description of each check
    record_offset: int = 0  # in the arena
    # bytes of the arena that a call uses: the largest of these, for its sizes
    arena_ends: tuple[Dim, ...] = ()
    entries: EntryPoints | None = None
    ranks: RanksApi | None = None
    state_sizes: tuple[str, ...] = ()  # in C, those that the layout of the state depends on
    driver: HostDriver | None = None  # of the device whose host's side the C file is

    @property
    def held_sizes(self) -> tuple[int, ...]:
        """The numbers, among `sizes`, of those that the layout of the state depends on."""
        return tuple(n for n, size in enumerate(self.sizes) if size.name in self.state_sizes)

    @property
    def staged(self) -> bool:
        """Whether ranks are stages of a pipeline, which have steps and state of their own."""
        return self.ranks is not None and bool(self.ranks.stage_axis)

    @property
    def upper(self) -> str:
        """The prefix of macros."""
        return self.prefix.upper()

    @property
    def namespace(self) -> str:
        """The C++ namespace of the model."""
        return f"{self.prefix}_model" if self.prefix in KEYWORDS else self.prefix

    @property
    def arrays(self) -> tuple[ArrayArgument, ...]:
        """Inputs, then outputs, in the order of `NAME_run`'s parameters."""
        return (*self.inputs, *self.outputs)

    @property
    def every_array(self) -> tuple[ArrayArgument, ...]:
        """The arrays of all functions, each once."""
        more = [a for entry in self.entries.points for a in entry.arrays] if self.entries else []
        return tuple(dict.fromkeys((*self.arrays, *more)))

    @property
    def calls(self) -> tuple[tuple[str, tuple[ArrayArgument, ...]], ...]:
        """The functions that run steps, without the prefix, with their arrays; `run` is first."""
        points = self.entries.points if self.entries else ()
        return (("run", self.arrays), *((point.name, point.arrays) for point in points))

    @property
    def tables(self) -> tuple[tuple[str, tuple[ArrayArgument, ...]], ...]:
        """The functions of `calls` that have a variant taking their arrays in a table,
        `NAME_run_table`: those with more arrays than callers such as Python's ctypes can pass.
        """
        return tuple(call for call in self.calls if len(call[1]) > MANY)

    @property
    def arena_start(self) -> int:
        """The offset of the arena in the caller's memory."""
        return -(-self.state_bytes // self.align) * self.align

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the caller provides."""
        return self.arena_start + self.arena_bytes

    @property
    def ends(self) -> tuple[Dim, ...]:
        """Bytes of the caller's memory needed by a call of some sizes: the largest of these. The
        first is a constant.
        """
        return tuple(end + self.arena_start for end in self.arena_ends or (self.arena_bytes,))

    @property
    def least_bytes(self) -> int:
        """Bytes of memory needed by calls of the least sizes."""
        least = {
            size.symbol.name: -(-size.symbol.min // size.symbol.multiple_of)
            * size.symbol.multiple_of
            for size in self.sizes
        }
        return max(evaluate(end, least) for end in self.ends)

    @property
    def record(self) -> int:
        """The offset of a checked program's record in the caller's memory."""
        return self.arena_start + self.record_offset

    @property
    def mapped(self) -> bool:
        """Whether the caller provides the weights."""
        return bool(self.weight_bytes) and not self.weights.inside

    @property
    def ready(self) -> int:
        """The value of `ready` in an initialised context of this program."""
        facts = f"{self.prefix} {self.memory_bytes} {self.weight_bytes} {self.weights_hash}"
        return zlib.crc32(facts.encode()) | 1

    @property
    def torn(self) -> int:
        """The value of `ready` after a run was stopped that had changed a part of the state."""
        return self.ready ^ 2

    @property
    def status(self) -> type[Status]:
        """The status codes that the functions return, by name."""
        return Status

    @property
    def codes(self) -> tuple[StatusCode, ...]:
        """All status codes of this program."""
        entries = (
            *(EntryStatus if self.entries else ()),
            *(StateStatus if self.state_sizes else ()),
        )
        if self.driver is None:
            return (*Status, *entries, *(RankStatus if self.ranks else ()))
        used = [Status.OK, Status.NULL_POINTER, Status.NOT_READY, Status.STOPPED]
        used += [Status.OUT_OF_BOUNDS] if self.sizes else []
        used += [Status.NO_WEIGHTS, Status.WRONG_WEIGHTS] if self.weight_bytes else []
        used += [Status.CHECK_FAILED] if self.checks else []
        return (*used, *entries, *DeviceStatus)

    @property
    def texts(self) -> list[str]:
        """The text of every number up to the last status, followed by that of any other."""
        known = {status.number: status.text for status in self.codes}
        return [known.get(number, UNKNOWN) for number in range(max(known) + 1)] + [UNKNOWN]

    @property
    def init_parameters(self) -> str:
        """The parameters of NAME_init after the context."""
        given = ["void *memory", "size_t memory_bytes"]
        given += ["const void *weights", "size_t weight_bytes"] if self.mapped else []
        given += ["MPI_Comm ranks"] if self.ranks else []
        return ", ".join(given)

    @property
    def run_parameters(self) -> str:
        """The parameters of NAME_run after the context."""
        return self.parameters_of(self.arrays)

    def parameters_of(self, arrays: tuple[ArrayArgument, ...]) -> str:
        """The parameters, after the context, of a function of these arrays."""
        given = [f"const {self.prefix}_sizes *sizes"] if self.sizes else []
        return ", ".join([*given, *(a.parameter for a in arrays)])

    @property
    def functions(self) -> tuple[str, ...]:
        """All symbols that an artefact exports."""
        names = ["size", "init", "run", "stop", "reset", "status_text"]
        names += ["check_weights"] if self.mapped else []
        names += ["failure"] if self.checks else []
        names += self.entries.functions if self.entries else []
        names += [f"{name}_table" for name, _ in self.tables]
        names += ["free", "limit", "collective"] if self.ranks else []
        names += ["part", "part_bytes"] if self.ranks and self.mapped else []
        names += ["holds"] if self.staged and self.entries else []
        return tuple(f"{self.prefix}_{name}" for name in names)


def text_of(text: str) -> str:
    """Text for string literals of C and of LLVM: printable ASCII, without quotes and escapes."""
    return "".join(
        c if " " <= c <= "~" and c not in '"\\?%' else "'" if c == '"' else "?" for c in text
    )[:LONGEST]


def api_of(
    program: Program,
    weights: WeightsOrigin = WeightsOrigin.EMBED,
    align: int = ALIGN,
    ranks: RanksApi | None = None,
) -> Api:
    """The interface of a program, whose caller's memory, and weights, are aligned to `align`
    bytes; `ranks` are those that run it together.
    """
    from xlac_sdk.lowering.stop_checks import of_entries

    slots = [s for s in program.slots if s.role in (Role.INPUT, Role.OUTPUT)]
    slots = list(dict.fromkeys((*program.inputs, *program.outputs, *slots)))
    names = parameters((s.name for s in slots), "array")
    called_arrays = {
        s: ArrayArgument(s, n, s.role is Role.OUTPUT) for s, n in zip(slots, names, strict=True)
    }
    called = parameters((s.name for s in program.sizes), "size")
    of_state = sizes_of_state(program)
    sizes = tuple(SizeArgument(s, n) for s, n in zip(program.sizes, called, strict=True))
    constant = any(s.role is Role.CONSTANT and s.nbytes for s in program.slots)
    outside = constant and not (weights is WeightsOrigin.EMBED)
    record = program.facts.get(RECORD) or {"texts": (), "offset": 0}
    return Api(
        identifier(program.name),
        comment(program.name),
        tuple(called_arrays[s] for s in program.inputs),
        tuple(called_arrays[s] for s in program.outputs),
        sizes,
        weights,
        align,
        program.arena_bytes,
        program.state_bytes,
        tuple(comment(case.title) for case in program.cases),
        file_bytes(program) if outside else 0,
        weights_hash(program) if outside else 0,
        bool(program.state_bytes) and any(checks.tears for checks in of_entries(program)),
        tuple(map(text_of, record["texts"])),
        record["offset"],
        arena_ends(program) if sizes else (),
        entry_points(program, called_arrays),
        ranks,
        tuple(name for s, name in zip(program.sizes, called, strict=True) if s.name in of_state),
    )
