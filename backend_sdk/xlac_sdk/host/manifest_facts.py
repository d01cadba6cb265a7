"""The values in a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from xlac_sdk.dims import Symbol
from xlac_sdk.host import state_sizes, stopping
from xlac_sdk.host.manifest_entries import EntriesFacts
from xlac_sdk.host.manifest_tensors import TensorFacts
from xlac_sdk.host.package import Artefact, Package
from xlac_sdk.host.ranks.facts import RanksFacts
from xlac_sdk.programs.constants import WeightsOrigin
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.support import schema


@dataclass(frozen=True, slots=True)
class Size:
    """A size chosen by each call, within bounds."""

    name: str
    min: int
    max: int
    opt: int
    multiple_of: int

    @property
    def symbol(self) -> Symbol:
        """The size as a symbol."""
        return Symbol(self.name, self.min, self.max, self.opt, self.multiple_of)

    @staticmethod
    def of(symbol: Symbol) -> Size:
        """From a program's size."""
        return Size(
            name=symbol.name,
            min=symbol.min,
            max=symbol.max,
            opt=symbol.opt,
            multiple_of=symbol.multiple_of,
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that one call needs beside the caller's inputs and outputs."""

    arena: int
    state: int
    weights: int
    peak: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """The compiler and sources of an artefact, by version and hash; no paths or users."""

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
    library: str = ""  # opened by `xlac.load`
    weights: WeightsOrigin = WeightsOrigin.EMBED
    weights_file: str = ""
    needs: tuple[str, ...] = ()  # libraries that must be installed to run it
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    sizes: tuple[Size, ...] = ()
    # sizes with specialized code, in the order in which they are tried
    variants: tuple[Mapping[str, int], ...] = ()
    memory: Memory
    kernels: int
    flops: int  # including the iterations of loops
    long: bool = False  # whether a call may run so long that it checks for stop requests
    entries: EntriesFacts | None = None  # from format 3 on
    ranks: RanksFacts | None = None  # from format 4 on
    # from format 5 on: open sizes that the state depends on, each with the name of such a state;
    # and how callers of Python get outputs (`programs/results.py`), where not as they are
    state_sizes: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance
    files: Mapping[str, str] = field(default_factory=dict)  # name -> hash

    def alone(self, folder: Path, copy_weights: bool = False) -> Artefact:
        """The artefact for a process that is alone. Raises UnsupportedError for one that ranks of a
        mesh run together.
        """
        if self.ranks is not None:
            raise self.ranks.alone()
        return self.artefact(folder, copy_weights)

    def artefact(self, folder: Path, copy_weights: bool = False) -> Artefact:
        """The artefact for the backend to load; with `copy_weights` it reads instead of mapping."""
        symbols = {size.name: size.symbol for size in self.sizes}
        inputs = tuple(t.slot(Role.INPUT, symbols) for t in self.inputs)
        outputs = tuple(t.slot(Role.OUTPUT, symbols) for t in self.outputs)
        state = self.entries.slots() if self.entries else {}
        program = Program(
            self.name,
            inputs,
            outputs,
            (*inputs, *outputs, *state.values()),
            (),
            {},
            self.memory.arena,
            self.memory.state,
            sizes=tuple(symbols.values()),
            facts={
                stopping.LONG: self.long,
                "flops": self.flops,
                "bytes": 0,
                state_sizes.FACT: dict(self.state_sizes),
                **self.results,
            },
            entries=self.entries.entries(state, symbols) if self.entries else None,
        )
        package = Package(self.library, self.weights_file, self.needs)
        weights = (
            WeightsOrigin.FILE
            if copy_weights and self.weights is WeightsOrigin.MMAP
            else self.weights
        )
        return Artefact(folder, program, package, weights, self.provenance.machines)

    def text(self) -> str:
        """The manifest as text, with its own hash last."""
        facts: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_value))
        if self.entries is None:
            del facts["entries"]  # unknown to older readers
        if self.ranks is None:
            del facts["ranks"]
        for name in ("state_sizes", "results"):
            if not facts[name]:
                del facts[name]
        facts["sha256"] = digest(facts)
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"


def _value(one: Any) -> Any:
    if not isinstance(one, Enum):
        raise TypeError(f"a manifest holds no {type(one).__name__}")
    return one.value


def inside(name: Any, place: str) -> str:
    """The name of a file inside the artefact's folder."""
    text: str = schema.text()(name, place)
    path = PurePosixPath(text)
    if (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in text
        or path.as_posix() != text
        or text == "."
    ):
        raise schema.wrong(place, "a path inside the artefact's folder", name)
    return text


def place(value: Any, place: str) -> str:
    """The name of a file, or "" for none."""
    return "" if value == "" else inside(value, place)


def file_or_folder(value: Any, place: str) -> str:
    """The name of a file or folder, "." for the artefact's folder, or "" for none."""
    return value if value in ("", ".") else inside(value, place)


def digest(facts: dict[str, Any]) -> str:
    """SHA-256 of a manifest's facts."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
