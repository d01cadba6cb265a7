"""Reads the files of hand-written kernels: regular text files of bounded size, inside the spec's
folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xlac.spec.report import Fault, Place, Report, nearest
from xlac.spec.schema.document import Merged, resolved
from xlac.spec.schema.kernels import KernelSpec
from xlac.support.dependencies import note
from xlac.support.released import released
from xlac_sdk.host.registry import installed
from xlac_sdk.languages import LANGUAGES
from xlac_sdk.source import SourceError

MOST = 1 << 20  # bytes of a file
REFERENCE = "reference"  # the target that runs the reference graph


@dataclass(frozen=True, slots=True)
class KernelText:
    """The text of a kernel's file, and its entry in the spec."""

    target: str
    language: str
    path: Path
    text: str
    spec: KernelSpec
    place: Place


def read(
    merged: Merged, report: Report, folder: Path, allow_outside: bool
) -> dict[str, dict[str, KernelText]]:
    """The kernels of every operation by target; invalid ones are reported."""
    kernels: dict[str, dict[str, KernelText]] = {}
    known = sorted({*released(), *installed()} - {REFERENCE})
    for name, entry in merged.ops.items():
        for target, like in entry.spec.kernels.items():
            place = entry.place.at("kernels", target)
            try:
                _check_target(target, known, place)
                spec = like if isinstance(like, KernelSpec) else KernelSpec(file=like)
                at = place.at("file") if isinstance(like, KernelSpec) else place
                path, text = _text(spec, at, folder, allow_outside)
                language = _language(path, at)
            except Fault as fault:
                report.fault(fault)
            else:
                kernel = KernelText(target, language, path, text, spec, place)
                kernels.setdefault(name, {})[target] = kernel
    return kernels


def paths(kernels_by_op: Mapping[str, Mapping[str, KernelText]]) -> dict[str, dict[str, Path]]:
    """The paths of the files, by operation and target."""
    return {
        name: {target: kernel.path for target, kernel in kernels.items()}
        for name, kernels in kernels_by_op.items()
    }


def _check_target(target: str, known: list[str], place: Place) -> None:
    if target == REFERENCE:
        problem = "the target reference computes the meaning, which kernels are compared with"
        raise Fault("XL3031", problem, place.key, "leave this kernel out")
    if target not in known:
        raise Fault("XL3031", f"no target is called {target!r}", place.key, nearest(target, known))


def _language(path: Path, place: Place) -> str:
    language = path.suffix.removeprefix(".").lower()
    if language not in LANGUAGES:
        known = ", ".join(f".{suffix} ({each.name})" for suffix, each in LANGUAGES.items())
        raise Fault(
            "XL3031", f"{path.name!r} is in no language of kernels", place.span, f"known: {known}"
        )
    return language


def _text(spec: KernelSpec, place: Place, folder: Path, allow_outside: bool) -> tuple[Path, str]:
    """The path and the text of a file. Raises Fault."""
    name = str(spec.file)
    path = place.source.file.parent / name
    if "\0" in name:
        raise Fault("XL3001", "a path has no NUL", place.span)
    if not allow_outside and not resolved(path).is_relative_to(folder):
        problem = f"{name!r} is outside the spec's folder"
        raise Fault("XL3002", problem, place.span, "--allow-outside permits it")
    try:
        if not path.is_file() and not path.exists():
            raise Fault("XL3001", f"no such file: {name}", place.span)
        with note(path).open("rb") as file:
            data = file.read(MOST + 1)
    except SourceError as error:
        cause = error.diagnostics[0]
        raise Fault("XL3001", cause.message, place.span, cause.hint) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Fault("XL3001", f"{name} cannot be read: {why}", place.span) from None
    if len(data) > MOST:
        problem = f"{name} has more than {MOST >> 20} MiB"
        raise Fault("XL3030", problem, place.span, "a kernel's file holds one operation")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"{name} is not UTF-8 text (byte {error.start})"
        raise Fault("XL3030", problem, place.span) from None
    if "\0" in text:
        raise Fault("XL3030", f"{name} has a NUL, and is not text", place.span)
    return path, text
