"""The description of a machine. The optimizer reads it as data and never calls a backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from xlac_sdk.arithmetic import WeakArithmetic
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import MANDATORY, Primitive
from xlac_sdk.machine_facts import TUNABLE, MachineFacts, plain_fact
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.target_checks import check_target

if TYPE_CHECKING:  # rarely needed by targets
    from xlac_sdk.libraries.attention import Attentions
    from xlac_sdk.libraries.product import Products

MAX_THREADS = 1024
MOST_ELEMENTS = 1 << 30  # of a buffer, and the largest size, where indices are i32
GENERIC = MachineFacts()
Facts = tuple[tuple[str, Any], ...]
"""Facts by name, in order."""


MACHINE = {"cpu": "CPU", "triple": "triple", "features": "features", "arch": "architecture"}
"""What users name a machine by: the fields of a request."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked of a target: `--cpu`, `--triple`, `--threads`, `--arch`; empty means this
    machine.
    """

    cpu: str = ""
    triple: str = ""
    features: str = ""
    arch: str = ""
    threads: int = 1
    size: bool = False  # prefer small code over fast code
    # for another machine, or a later run: only features that were asked for may be used
    ahead: bool = False
    # facts of `MachineFacts`, by name, that replace the processor's (except for choices that decide
    # the order of a sum): measured ones, or from a file
    facts: Facts = ()
    # what was tuned here: facts of the target and its hardware, by the device that they describe
    # (`Target.identity`); those of the device "" are of any, as the user gave them
    tuned: tuple[tuple[str, Facts], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.threads, int) or not 1 <= self.threads <= MAX_THREADS:
            raise SourceError(
                Diagnostic("XL5005", f"threads must be 1 to {MAX_THREADS}, not {self.threads!r}")
            )

    @property
    def given_facts(self) -> dict[str, Any]:
        """The facts that the user gave, by name."""
        return {name: value for device, facts in self.tuned if not device for name, value in facts}

    def hardware_facts(self, target: str) -> dict[str, Any]:
        """The given facts of `MachineFacts`, by name, for a target whose other facts are known.
        Raises SourceError where others were given.
        """
        for name in sorted(self.given_facts.keys() & TUNABLE.keys()):
            problem = f"the {target} backend knows {name} itself: it cannot be given"
            raise SourceError(Diagnostic("XL5042", problem))
        return dict(self.facts)

    def refuse(self, target: str, *names: str, hint: str = "", code: str = "XL5201") -> None:
        """Raises SourceError where the request has any of these fields, by name, as the target
        supports none.
        """
        for name in names:
            given = getattr(self, name)
            if given:
                problem = f"the {target} backend takes no {MACHINE[name]} ('{given}')"
                raise SourceError(Diagnostic(code, problem, hint=hint))


@dataclass(frozen=True, slots=True)
class Target:
    """The facts that schedules and passes may use. All but the name have conservative defaults."""

    name: str
    vector_bytes: int = 0  # width of a vector register; 0: scalars only
    vector_registers: int = 16
    most_lanes: int = 0  # most lanes of a vector of the language; 0: any number
    masked: bool = False  # masked vector loads and stores are cheap
    gathers: bool = False  # vector gathers are cheap
    fma: bool = False
    byte_tables: bool = False  # vectors of bytes are looked up in tables of 256 at once
    byte_words: bool = (
        False  # bytes of four vectors are joined to words by two or three instructions
    )
    threads: int = 1
    hardware: MachineFacts = GENERIC  # caches, rates and latencies
    # without measured facts, if there are any
    unmeasured: MachineFacts | None = None
    pointer_bits: int = 64
    warp: int = 0  # threads that execute in lockstep, on a GPU
    block_threads: int = 0  # most threads of a block
    most_blocks: int = 0  # most blocks of a launch, or of a row of them; 0: any number
    most_rows: int = 1  # most rows of blocks of a launch: its second dimension
    most_buffers: int = 0  # most buffers of a kernel; 0: any number
    # bytes of which the places of temporaries and state are multiples, as bindings may demand
    alignment: int = 64
    # bytes to which the device's allocations are aligned: kernels assume no more
    storage_alignment: int = 64
    # bytes of which places and sizes of copies on the device are multiples: others are kernels
    copy_alignment: int = 1
    shared_bytes: int = 0
    dtypes: frozenset[DType] = frozenset(DType)
    # primitives that the backend emits natively; the SDK expands the others
    primitives: frozenset[Primitive] = MANDATORY
    # expanded for this operand type, though listed above
    lacks: frozenset[tuple[Primitive, DType]] = frozenset()
    # native forms that are less than kernel IR means; the SDK repairs or refuses them
    weak: frozenset[WeakArithmetic] = frozenset()
    # of div rem shl shr cast: undefined in special cases; the SDK inserts guards
    guards: frozenset[Primitive] = frozenset()
    instructions: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()  # composites that the target implements whole, by mnemonic
    # of hand-written kernels that it compiles, as suffixes of files: c, ll, cu, cl
    languages: frozenset[str] = frozenset()
    # its text has functions that kernels call: long expansions that a kernel uses often are such
    functions: bool = False
    vectorizes: bool = False  # whether the compiler of the text vectorizes counted loops
    size: bool = False  # optimise for code size
    # of one copy of an operand, or a product that an update follows: above this, slower kernels
    # that need no such array are chosen. 0: any number
    temporary_bytes: int = 0
    reorders_sums: bool = False  # with `temporary_bytes`, sums may be in another order than without
    facts: str = field(default="", compare=True)  # what else identifies the machine, for cache keys
    # bytes of the widest load or store of one GPU thread, which limits vectors in GPU kernels
    access_bytes: int = 0
    thread_bytes: int = 64  # that a thread loads before it stores, where elements are functions
    processors: int = 0  # multiprocessors of a GPU; 0: unknown
    products: frozenset[Products] = frozenset()  # matrix products that a library supports
    # the model's precision is "fast": sums may be reordered and roundings of 16-bit floats skipped
    fast: bool = False
    convolutions: frozenset[Products] = frozenset()  # likewise
    attentions: frozenset[Attentions] = frozenset()  # likewise
    collectives: bool = False  # runs CollectiveStart and CollectiveDone
    # what these do not combine, as ("max", DType.F32): ranks send it all, and each combines it
    uncombined: frozenset[tuple[str, DType]] = frozenset()
    host_calls: bool = False  # runs steps that call Python functions
    # "cpu" or "gpu": which lowerings are used; by default gpu if there are warps
    device: str = ""

    def __post_init__(self) -> None:
        # `replace` keeps the device of the target that it copies
        device = self.device or ("gpu" if self.warp else "cpu")
        object.__setattr__(self, "device", device)
        check_target(self)

    @property
    def splits_long_integers(self) -> bool:
        """Whether the language lacks 64-bit integers: they are two u32 then, and indices i32."""
        return DType.I64 not in self.dtypes

    def stores(self, dtype: DType) -> bool:
        """Whether programs may have elements of a type: those that the language has, and those that
        the SDK stores as bits or words of others.
        """
        return dtype in self.dtypes or dtype.is_half or dtype in (DType.I64, DType.U64)

    @property
    def l1_bytes(self) -> int:
        """Bytes of a core's first-level data cache."""
        return self.hardware.l1_bytes

    @property
    def l2_bytes(self) -> int:
        """Bytes of a core's second-level cache."""
        return self.hardware.l2_bytes

    @property
    def l3_bytes(self) -> int:
        """Bytes of the last-level cache."""
        return self.hardware.l3_bytes

    @property
    def shipped(self) -> Target:
        """The target without measured facts: what decides the order of a sum reads this one, so
        that results do not depend on measurements.
        """
        if self.unmeasured is None:
            return self
        return replace(self, hardware=self.unmeasured, unmeasured=None)

    def fact(self, name: str) -> Any:
        """A fact by its name, of the target itself (`TUNABLE`) or of its hardware."""
        return getattr(self if name in TUNABLE else self.hardware, name)

    def with_facts(self, **facts: Any) -> Target:
        """The target with some hardware facts changed, by name. Raises TypeError and ValueError for
        unknown or invalid ones.
        """
        return replace(self, hardware=replace(self.hardware, **facts))

    @property
    def identity(self) -> str:
        """What tells the device from others: whether facts that were tuned are of it."""
        return f"{self.name} {self.device} {self.facts}"

    def with_tuned(self, facts: Mapping[str, Any]) -> Target:
        """The target with facts of its own (`TUNABLE`) and of its hardware changed, by name; what
        is measured of the hardware decides no order of sums. Raises TypeError and ValueError for
        those that there are not.
        """
        own = {name: value for name, value in facts.items() if name in TUNABLE}
        rest = {name: value for name, value in facts.items() if name not in TUNABLE}
        if not rest:
            return replace(self, **own)
        shipped = self.unmeasured or self.hardware
        return replace(self, **own, hardware=replace(self.hardware, **rest), unmeasured=shipped)

    def tuned(self, request: Request) -> Target:
        """The target as `xlac backend tune` found its device to be, or by the facts that the user
        gave: what `Backend.target` returns. Without either it is the same.
        """
        identity = self.identity
        for device, facts in request.tuned:
            if device in ("", identity):
                return self.with_tuned(dict(facts))
        return self

    def with_given(self, request: Request, *names: str) -> Target:
        """The target with those facts that the user gave, of these names or else of its hardware;
        others are refused (`Backend.target_for`).
        """
        given = request.given_facts
        taken = set(names) if names else given.keys() - TUNABLE.keys()
        return self.with_tuned({name: value for name, value in given.items() if name in taken})

    @property
    def machine(self) -> dict[str, Any]:
        """`facts` parsed as an object, if it is JSON: `cpu`, `triple`, `features`, …"""
        try:
            parsed = json.loads(self.facts or "{}")
        except ValueError:
            return {"facts": self.facts}
        return parsed if isinstance(parsed, dict) else {"facts": parsed}

    def to_json(self) -> dict[str, Any]:
        """Every fact as JSON, the inverse of `from_json`."""
        values = {name: getattr(self, name) for name in (f.name for f in fields(self))}
        return {name: plain_fact(value) for name, value in values.items()}

    @staticmethod
    def from_json(facts: Mapping[str, Any]) -> Target:
        """The inverse of `to_json`; raises KeyError, TypeError or ValueError for anything else."""
        kinds: dict[str, Callable[[Any], Any]] = {
            "dtypes": DType, "primitives": Primitive, "guards": Primitive, "instructions": str,
            "claims": str, "lacks": lambda pair: (Primitive(pair[0]), DType(pair[1])),
            "uncombined": lambda pair: (str(pair[0]), DType(pair[1])),
            "languages": str, "weak": WeakArithmetic.from_json,
            "products": _products, "convolutions": _products, "attentions": _attentions,
        }  # fmt: skip
        sets = {name: frozenset(map(kind, facts[name])) for name, kind in kinds.items()}
        hardware, unmeasured = facts["hardware"], facts["unmeasured"]
        measured = {
            "hardware": MachineFacts.from_json(hardware),
            "unmeasured": None if unmeasured is None else MachineFacts.from_json(unmeasured),
        }
        return Target(**{**facts, **sets, **measured})

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector, at least 1. 16-bit floats count as their compute
        type.
        """
        lanes = max(1, self.vector_bytes // dtype.compute.nbytes)
        return min(lanes, self.most_lanes) if self.most_lanes else lanes

    def spells(self, primitive: Primitive, dtype: DType) -> bool:
        """Whether the backend emits a primitive on operands of `dtype` natively, as it is meant."""
        if primitive not in self.primitives or (primitive, dtype) in self.lacks:
            return False
        return not self.weak or all(one.serves for one in self.weakness(primitive, dtype))

    def weakness(self, primitive: Primitive, dtype: DType) -> list[WeakArithmetic]:
        """What is stated of a primitive's native form on operands of `dtype`; usually nothing."""
        return [w for w in self.weak if w.primitive is primitive and w.dtype is dtype]


def _products(facts: list[Any]) -> Products:
    from xlac_sdk.libraries.product import Products

    return Products.from_json(facts)


def _attentions(facts: list[Any]) -> Attentions:
    from xlac_sdk.libraries.attention import Attentions

    return Attentions.from_json(facts)
