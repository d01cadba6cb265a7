"""What an artefact says of itself: written by `xlac build`, checked before anything of it is
loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from xlac_sdk.dims import Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.host import stopping
from xlac_sdk.host.package import Artefact, Package
from xlac_sdk.programs.constants import Weights
from xlac_sdk.programs.dimdata import data_of, dim_of
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support import schema
from xlac_sdk.support.files import regular

NAME = "manifest.json"
FORMAT = 2
LONGEST = 16 << 20  # bytes of a manifest
CHUNK = 1 << 20
TERMS, EXTENT = 64, 4096  # of an open size, and characters


@dataclass(frozen=True, slots=True)
class Size:
    """A size that each call chooses, within bounds."""

    name: str
    min: int
    max: int
    opt: int
    multiple_of: int

    @property
    def symbol(self) -> Symbol:
        return Symbol(self.name, self.min, self.max, self.opt, self.multiple_of)

    @staticmethod
    def of(symbol: Symbol) -> Size:
        return Size(
            name=symbol.name,
            min=symbol.min,
            max=symbol.max,
            opt=symbol.opt,
            multiple_of=symbol.multiple_of,
        )


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output: the user's name, the identifier in the header, type, size, and the
    alignment it must have.

    An extent is a number, or what `xlac_sdk.programs.dimdata` makes of an open one; `bytes` are the
    most there can be.
    """

    name: str
    symbol: str
    dtype: DType
    shape: tuple[Any, ...]
    bytes: int
    align: int

    @staticmethod
    def of(slot: Slot) -> Tensor:
        return Tensor(
            name=slot.name,
            symbol=slot.symbol,
            dtype=slot.dtype,
            shape=tuple(map(data_of, slot.shape)),
            bytes=slot.nbytes,
            align=slot.dtype.nbytes,
        )

    def slot(self, role: Role, symbols: Mapping[str, Symbol]) -> Slot:
        shape = tuple(dim_of(extent, symbols) for extent in self.shape)
        return Slot(self.name, self.symbol, self.dtype, shape, role, align=self.align)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that one call takes beside the caller's inputs and outputs."""

    arena: int
    state: int
    weights: int
    peak: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """What made the artefact, and from what; nothing of where or by whom."""

    xlac: str
    backend: str
    spec: str  # hash of the file
    weights: str  # hash of the tensors' names, types and data
    machines: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of one artefact."""

    format: int
    name: str
    target: str
    forms: tuple[str, ...]
    library: str = ""  # what `xlac.load` opens
    weights: Weights = Weights.EMBED
    weights_file: str = ""
    needs: tuple[str, ...] = ()  # libraries that have to be installed where it runs
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[Size, ...] = ()
    # sizes that have code of their own, in the order in which they are tried
    variants: tuple[Mapping[str, int], ...] = ()
    memory: Memory
    kernels: int
    flops: int  # steps of loops multiply
    long: bool = False  # whether a call may take so long that it looks whether to stop
    provenance: Provenance
    files: Mapping[str, str] = field(default_factory=dict)  # name -> hash

    def artefact(self, folder: Path, copy_weights: bool = False) -> Artefact:
        """What the backend is given to load; with `copy_weights` it reads what it would map."""
        symbols = {size.name: size.symbol for size in self.sizes}
        inputs = tuple(t.slot(Role.INPUT, symbols) for t in self.inputs)
        outputs = tuple(t.slot(Role.OUTPUT, symbols) for t in self.outputs)
        program = Program(
            self.name,
            inputs,
            outputs,
            (*inputs, *outputs),
            (),
            {},
            self.memory.arena,
            self.memory.state,
            sizes=tuple(symbols.values()),
            facts={stopping.LONG: self.long, "flops": self.flops, "bytes": 0},
        )
        package = Package(self.library, self.weights_file, self.needs)
        weights = Weights.FILE if copy_weights and self.weights is Weights.MMAP else self.weights
        return Artefact(folder, program, package, weights, self.provenance.machines)

    def text(self) -> str:
        """The manifest as its file has it, its own hash last."""
        facts: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_value))
        facts["sha256"] = _digest(facts)
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"


def _value(one: Any) -> Any:
    if not isinstance(one, Enum):
        raise TypeError(f"a manifest holds no {type(one).__name__}")
    return one.value


def _inside(name: Any, place: str) -> str:
    """The name of a file in the artefact's folder."""
    found: str = schema.text()(name, place)
    path = PurePosixPath(found)
    if (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in found
        or path.as_posix() != found
        or found == "."
    ):
        raise schema.wrong(place, "a path inside the artefact's folder", name)
    return found


def _extent(value: Any, place: str) -> Any:
    """A number, or the form of an open size; whether its names are sizes of the model is seen when
    it is made one.
    """
    if not isinstance(value, list):
        return schema.count()(value, place)
    schema.anything(value, place)
    if len(value) > TERMS or len(json.dumps(value)) > EXTENT:
        raise schema.wrong(
            place, f"a sum of at most {TERMS} terms, {EXTENT} characters in all", value
        )
    return value


def _place(value: Any, place: str) -> str:
    """The name of a file, or "" for none."""
    return "" if value == "" else _inside(value, place)


_COUNT, _TEXT, _HASH = schema.count(), schema.text(), schema.text(r"[0-9a-f]{64}")
_NAME = schema.text(r"(?s).+")
_SIZE = schema.record(
    Size,
    {"name": _NAME, "min": _COUNT, "max": _COUNT, "opt": _COUNT, "multiple_of": schema.count(1)},
)
_TENSOR = schema.record(
    Tensor,
    {
        "name": _NAME,
        "symbol": schema.text(r"[A-Za-z_][A-Za-z0-9_]*"),
        "dtype": schema.member(DType),
        "shape": schema.many(_extent, 64),
        "bytes": _COUNT,
        "align": schema.count(1, 4096),
    },
)
_MEMORY = schema.record(Memory, dict.fromkeys(("arena", "state", "weights", "peak"), _COUNT))
_PROVENANCE = schema.record(
    Provenance,
    {
        "xlac": _TEXT,
        "backend": _TEXT,
        "spec": _HASH,
        "weights": _HASH,
        "machines": schema.many(schema.table(_TEXT, schema.anything), least=1),
        "options": schema.table(_TEXT, schema.anything),
    },
)
_MANIFEST = schema.record(
    Manifest,
    {
        "format": schema.count(FORMAT, FORMAT),
        "name": _NAME,
        "target": schema.text(r"[A-Za-z0-9_.-]+"),
        "forms": schema.many(schema.text(r"[a-z]+")),
        "library": _place,
        "weights": schema.member(Weights),
        "weights_file": _place,
        "needs": schema.many(_NAME),
        "inputs": schema.many(_TENSOR),
        "outputs": schema.many(_TENSOR, least=1),
        "sizes": schema.many(_SIZE),
        "variants": schema.many(schema.table(_NAME, _COUNT)),
        "memory": _MEMORY,
        "kernels": _COUNT,
        "flops": schema.count(0, 1 << 100),
        "long": schema.boolean,
        "provenance": _PROVENANCE,
        "files": schema.table(_inside, _HASH),
    },
)


def _consistent(found: Manifest, folder: Path) -> None:
    """Raises ValueError where fields contradict one another."""
    for kind, names in (("size", [s.name for s in found.sizes]), ("tensor", [t.symbol for t in (*found.inputs, *found.outputs)]),
                        ("input", [t.name for t in found.inputs]), ("output", [t.name for t in found.outputs])):  # fmt: skip
        if len(set(names)) < len(names):
            raise ValueError(f"two {kind}s have one name")
    for size in found.sizes:
        if not size.min <= size.opt <= size.max:
            raise ValueError(
                f"sizes.{size.name}: its bounds are {size.min} to {size.max}, and opt is {size.opt}"
            )
    for case in found.variants:
        if not case.keys() <= {size.name for size in found.sizes}:
            raise ValueError("variants: a variant has a size that the model has not")
    program = found.artefact(folder).program
    for tensor, slot in zip((*found.inputs, *found.outputs), program.slots, strict=True):
        if slot.nbytes != tensor.bytes:
            raise ValueError(
                f"'{tensor.name}' has {slot.nbytes} bytes by its shape, and {tensor.bytes} by the manifest"
            )
    memory = found.memory
    if memory.peak != memory.arena + memory.state + memory.weights:
        raise ValueError("memory.peak: not the sum of the others")
    if found.weights.inside and found.weights_file:
        raise ValueError("weights_file: the weights are in the code")
    for name in (found.library, found.weights_file):
        if name and name not in found.files:
            raise ValueError(f"'{name}' has no hash")


def is_artefact(folder: Path) -> bool:
    """Whether a folder looks like one that `xlac build` made."""
    return (folder / NAME).is_file()


def listed(folder: Path) -> dict[str, str] | None:
    """The files of an artefact with their hashes, by a manifest of any format; None where there is
    none that is as it was written.
    """
    try:
        facts = json.loads(regular(folder / NAME).read_text(encoding="utf-8"))
        if facts.pop("sha256") != _digest(facts):
            return None
        return {_inside(name, "files"): str(told) for name, told in facts["files"].items()}
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def read(folder: Path) -> Manifest:
    """The manifest of an artefact whose files are all there and as they were written.

    Raises SourceError for a folder that is none, and for an artefact of which something was cut off
    or changed.
    """
    file = folder / NAME
    if not file.is_file():
        hint = "an artefact is a folder that xlac build made" if folder.exists() else ""
        raise SourceError(
            Diagnostic("XL3012", f"'{folder}' is no artefact: it has no {NAME}", hint=hint)
        )
    manifest = _parsed(file)
    for name, wanted in manifest.files.items():
        try:
            found = file_hash(folder / name)
        except OSError as error:
            raise _damaged(f"{folder / name}: {error.strerror}") from None
        if found != wanted:
            raise _damaged(
                f"{folder / name} is not the file that xlac build wrote: its hash differs"
            )
    return manifest


def file_hash(file: Path) -> str:
    """SHA-256 of a file, read in pieces. Raises OSError for one that cannot be read, or is none: a
    pipe, a device.
    """
    digest = hashlib.sha256()
    with regular(file).open("rb") as data:
        while piece := data.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _parsed(file: Path) -> Manifest:
    try:
        if file.stat().st_size > LONGEST:
            raise _damaged(f"{file} is larger than any manifest")
        facts = json.loads(regular(file).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(f"{file} is cut off, or is not JSON") from None
    version = facts.get("format") if isinstance(facts, dict) else None
    if type(version) is not int or version != FORMAT:
        problem = f"{file} has format {str(version)[:40]}; this xlac reads format {FORMAT}"
        raise SourceError(
            Diagnostic("XL3014", problem, hint="build it again, or use the xlac that made it")
        )
    told = facts.pop("sha256", None)
    try:
        if told != _digest(facts):
            raise _damaged(f"{file} was changed after xlac build wrote it: its own hash differs")
        found: Manifest = _MANIFEST(facts, "")
        _consistent(found, file.parent)
        return found
    except (ValueError, RecursionError) as error:
        raise _damaged(f"{file}: {error}") from None


def _digest(facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _damaged(problem: str) -> SourceError:
    return SourceError(
        Diagnostic("XL3013", problem, hint="the artefact is damaged: remove it, and build it again")
    )
