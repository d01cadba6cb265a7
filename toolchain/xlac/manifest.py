"""What an artefact says of itself: written by `xlac build`, checked before anything of it is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from xlac_sdk.capi.weights import Weights
from xlac_sdk.dimdata import data_of, dim_of
from xlac_sdk.dims import Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.files import regular
from xlac_sdk.package import Artefact, Package
from xlac_sdk.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, SourceError

NAME = "manifest.json"
FORMAT = 2
LONGEST = 16 << 20  # bytes of a manifest
CHUNK = 1 << 20


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ValueError("the path leaves the artefact's folder")
    return name


Count = Annotated[int, Field(ge=0, lt=1 << 50)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Inside = Annotated[str, Field(max_length=4096), AfterValidator(_inside)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Size(_Part):
    """A size that each call chooses, within bounds."""

    name: str
    min: Count
    max: Count
    opt: Count
    multiple_of: Annotated[int, Field(ge=1, lt=1 << 50)]

    @property
    def symbol(self) -> Symbol:
        return Symbol(self.name, self.min, self.max, self.opt, self.multiple_of)

    @staticmethod
    def of(symbol: Symbol) -> Size:
        return Size(
            name=symbol.name, min=symbol.min, max=symbol.max, opt=symbol.opt, multiple_of=symbol.multiple_of
        )


class Tensor(_Part):
    """An input or output: the user's name, the identifier in the header, type, size, and the alignment it must have.

    An extent is a number, or what `xlac_sdk.dimdata` makes of an open one; `bytes` are the most there can be.
    """

    name: str
    symbol: str = Field(pattern=r"^[A-Za-z_]\w*$")
    dtype: DType
    shape: tuple[Count | list[Any], ...] = Field(max_length=64)
    bytes: Count
    align: Annotated[int, Field(ge=1, le=4096)]

    @staticmethod
    def of(slot: Slot) -> Tensor:
        return Tensor(
            name=slot.name, symbol=slot.symbol, dtype=slot.dtype, shape=tuple(map(data_of, slot.shape)),
            bytes=slot.nbytes, align=slot.dtype.nbytes,
        )  # fmt: skip

    def slot(self, role: Role, symbols: Mapping[str, Symbol]) -> Slot:
        shape = tuple(dim_of(extent, symbols) for extent in self.shape)
        return Slot(self.name, self.symbol, self.dtype, shape, role, align=self.align)


class Memory(_Part):
    """Bytes that one call takes beside the caller's inputs and outputs."""

    arena: Count
    state: Count
    weights: Count
    peak: Count


class Provenance(_Part):
    """What made the artefact, and from what; nothing of where or by whom."""

    xlac: str
    backend: str
    spec: Hash  # of the file
    weights: Hash  # of the tensors' names, types and data
    machines: tuple[dict[str, Any], ...]
    options: dict[str, Any]


class Manifest(_Part):
    """The manifest of one artefact."""

    format: Literal[2]
    name: str
    target: str
    forms: tuple[str, ...]
    library: Inside = ""  # what `xlac.load` opens
    weights: Weights = Weights.EMBED
    weights_file: Inside = ""
    needs: tuple[str, ...] = ()  # libraries that have to be installed where it runs
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[Size, ...] = ()
    variants: tuple[dict[str, Count], ...] = ()  # sizes that have code of their own, in the order in which they are tried
    memory: Memory
    kernels: Count
    flops: Annotated[int, Field(ge=0)]  # steps of loops multiply
    provenance: Provenance
    files: dict[Inside, Hash]

    def artefact(self, folder: Path) -> Artefact:
        """What the backend is given to load."""
        symbols = {size.name: size.symbol for size in self.sizes}
        inputs = tuple(t.slot(Role.INPUT, symbols) for t in self.inputs)
        outputs = tuple(t.slot(Role.OUTPUT, symbols) for t in self.outputs)
        program = Program(
            self.name, inputs, outputs, (*inputs, *outputs), (), {}, self.memory.arena, self.memory.state,
            sizes=tuple(symbols.values()),
        )  # fmt: skip
        package = Package(self.library, self.weights_file, self.needs)
        return Artefact(folder, program, package, self.weights, self.provenance.machines)

    def text(self) -> str:
        """The manifest as its file has it, its own hash last."""
        facts = self.model_dump(mode="json")
        facts["sha256"] = _digest(facts)
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"


def is_artefact(folder: Path) -> bool:
    """Whether a folder looks like one that `xlac build` made."""
    return (folder / NAME).is_file()


def listed(folder: Path) -> dict[str, str] | None:
    """The files of an artefact with their hashes, by a manifest of any format; None where there is none that is as it was written."""
    try:
        facts = json.loads(regular(folder / NAME).read_text(encoding="utf-8"))
        if facts.pop("sha256") != _digest(facts):
            return None
        return {_inside(name): str(told) for name, told in facts["files"].items()}
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def read(folder: Path) -> Manifest:
    """The manifest of an artefact whose files are all there and as they were written.

    Raises SourceError for a folder that is none, and for an artefact of which something was cut off or changed.
    """
    file = folder / NAME
    if not file.is_file():
        hint = "an artefact is a folder that xlac build made" if folder.exists() else ""
        raise SourceError(Diagnostic("XL3012", f"'{folder}' is no artefact: it has no {NAME}", hint=hint))
    manifest = _parsed(file)
    for name, wanted in manifest.files.items():
        try:
            found = file_hash(folder / name)
        except OSError as error:
            raise _damaged(f"{folder / name}: {error.strerror}") from None
        if found != wanted:
            raise _damaged(f"{folder / name} is not the file that xlac build wrote: its hash differs")
    for name in (manifest.library, manifest.weights_file):
        if name and name not in manifest.files:
            raise _damaged(f"{file}: '{name}' has no hash")
    return manifest


def file_hash(file: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with regular(file).open("rb") as data:
        while piece := data.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _parsed(file: Path) -> Manifest:
    if file.stat().st_size > LONGEST:
        raise _damaged(f"{file} is larger than any manifest")
    try:
        facts = json.loads(regular(file).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(f"{file} is cut off, or is not JSON") from None
    version = facts.get("format") if isinstance(facts, dict) else None
    if version != FORMAT:
        problem = f"{file} has format {version!r}; this xlac reads format {FORMAT}"
        raise SourceError(Diagnostic("XL3014", problem, hint="build it again, or use the xlac that made it"))
    told = facts.pop("sha256", None)
    if told != _digest(facts):
        raise _damaged(f"{file} was changed after xlac build wrote it: its own hash differs")
    try:
        found = Manifest.model_validate(facts)
        found.artefact(file.parent)  # its extents are over its own sizes
        return found
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise _damaged(f"{file}: {place}: {first['msg']}") from None
    except ValueError as error:
        raise _damaged(f"{file}: {error}") from None


def _digest(facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _damaged(problem: str) -> SourceError:
    return SourceError(Diagnostic("XL3013", problem, hint="the artefact is damaged: remove it, and build it again"))
