"""The tensors in the files that a spec names, opened when they are first asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.spec.report import Fault, Place, Poisoned, Report, nearest
from xlac.spec.schema import weights
from xlac.spec.schema.document import SpecEntry, resolved
from xlac.spec.weights.low_rank_file import factor_file, with_factors
from xlac.spec.weights.open_files import opened
from xlac.spec.weights.rename import renamed
from xlac.spec.weights.tensor_files import BadFile, StoredTensor, TensorFile
from xlac_sdk.source import Diagnostic, SourceError

if TYPE_CHECKING:
    from xlac_sdk.source import Span


class Stored:
    """The tensors in the files that a spec names, opened when they are first asked for."""

    def __init__(
        self, entry: SpecEntry[Any] | None, report: Report, folder: Path, allow_outside: bool
    ) -> None:
        self.entry, self.report, self.folder, self.allow_outside = (
            entry,
            report,
            folder,
            allow_outside,
        )
        self.readable = True
        self.constants: set[str] = set()  # tensors that are constants of the graph

    @property
    def spec(self) -> weights.WeightsSpec:
        """The file's entry in the spec."""
        given = self.entry.spec if self.entry is not None else weights.WeightsSpec()
        return given if isinstance(given, weights.WeightsSpec) else weights.WeightsSpec(file=given)

    @cached_property
    def names(self) -> dict[str, tuple[TensorFile, str]]:
        """Every tensor by its name in the spec: its file, and its name there."""
        if self.entry is None:
            return {}
        place = self.entry.place
        at = place.at("file") if isinstance(self.entry.spec, weights.WeightsSpec) else place
        every, self.readable = read(self.spec, at, self.report, self.folder, self.allow_outside)
        files = [file for file in every if not factor_file(file)]
        tensors = {name: (file, name) for file in files for name in file.tensors}
        if self.spec.rename and self.readable:
            before = len(self.report.diagnostics)
            renames = renamed(tensors, self.spec.rename, place.at("rename"), self.report)
            tensors = {new: tensors[old] for new, old in renames.items()}
            self.readable = len(self.report.diagnostics) == before
        for number, file in enumerate(every):
            if self.readable and file not in files:
                try:
                    tensors = with_factors(tensors, file)
                except BadFile as error:
                    spot = at.at(number) if isinstance(self.spec.file, list) else at
                    self.report.add("XL3004", f"{file.path.name}: {error}", spot.span)
                    self.readable = False
        return tensors

    def constant(self, name: str, type: Type, span: Span) -> Array:
        """A constant of the graph that is stored in a file. Raises Fault or Poisoned."""
        self.constants.add(name)
        if name not in self.names:
            if not self.readable:
                raise Poisoned
            raise Fault(
                "XL3005",
                f"missing tensor {name}: {type}, the value of a constant",
                span,
                "give it as value, or name the file that holds it under weights",
            )
        file, own = self.names[name]
        tensor = file.tensors[own]
        if tensor.dtype is not type.dtype or tensor.shape != type.shape:
            raise Fault(
                "XL3006",
                f"tensor {name} is {described(tensor)} in {file.path.name}, and the constant is "
                f"{type}",
                span,
            )
        return elements(file, own)


def elements(file: TensorFile, name: str) -> Array:
    """The elements of a tensor. Raises SourceError where the file is damaged."""
    try:
        return file[name]
    except BadFile as error:
        raise SourceError(Diagnostic("XL3004", f"{file.path}: {error}")) from None


def read(
    spec: weights.WeightsSpec, at: Place, report: Report, folder: Path, allow_outside: bool
) -> tuple[list[TensorFile], bool]:
    """The files, and whether all of them could be read."""
    texts = [] if spec.file is None else [spec.file] if isinstance(spec.file, str) else spec.file
    whole_files: list[TensorFile] = []
    seen: dict[str, str] = {}
    good = True
    for i, text in enumerate(texts):
        spot = at.at(i) if isinstance(spec.file, list) else at
        path = at.source.file.parent / text
        if not resolved(path).is_relative_to(folder) and not allow_outside:
            report.add(
                "XL3002",
                f"{text!r} is outside the spec's folder",
                spot.span,
                "--allow-outside permits it",
            )
            good = False
            continue
        try:
            file = opened(path)
        except FileNotFoundError:
            names = (
                [p.name for p in path.parent.glob("*.safetensors")] if path.parent.is_dir() else []
            )
            report.add("XL3001", f"no such file: {text}", spot.span, nearest(text, names))
            good = False
            continue
        except (BadFile, OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            report.add("XL3004", f"{text}: {reason}", spot.span)
            good = False
            continue
        for name in file.tensors if not factor_file(file) else ():
            if name in seen:
                report.add("XL3009", f"tensor {name!r} is in {seen[name]} and in {text}", spot.span)
            seen[name] = text
        whole_files.append(file)
    return whole_files, good


def described(tensor: StoredTensor) -> str:
    """The type of a tensor in a file."""
    return f"{str(tensor.dtype).lower()}[{', '.join(map(str, tensor.shape))}]"
