"""Files that are neither specs nor models that xlac reads, told by how they begin, and what to do
with them.
"""

from __future__ import annotations

from pathlib import Path

from xlac.support.file_kinds import HEAD, KINDS
from xlac_sdk.source import Diagnostic, SourceError

OWN = {
    "spec": (), ".onnx": ("a protobuf, as ONNX models are",), ".mlir": ("MLIR text",), ".mlirbc": ("StableHLO bytecode",),
    ".pt2": ("a program of torch.export", "a zip archive"),
}  # fmt: skip
"""What files of a suffix are, and what is left to their reader to find wrong."""
# is found anywhere in a file, so that a model may hold the same bytes
LOOSE = ("a program of jax.export",)


def refuse(file: Path, suffix: str = "spec") -> None:
    """Refuses a file that is told by how it begins to be no spec, or no model of its suffix. Raises
    SourceError.
    """
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD)
    except (OSError, ValueError):  # told by the reader
        return
    for pattern, kind, hint in KINDS:
        if pattern.match(head) and (suffix == "spec" or kind not in LOOSE):
            if kind in OWN[suffix]:
                return
            wanted = "a spec" if suffix == "spec" else f"what {suffix} files are"
            raise SourceError(Diagnostic("XL1023", f"{file} is {kind}, not {wanted}", hint=hint))
