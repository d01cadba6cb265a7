"""Recognizes files that are neither specs nor models xlac reads by their first bytes, and says what
to do with them.
"""

from __future__ import annotations

from pathlib import Path

from xlac.support.file_kinds import HEAD, KINDS
from xlac_sdk.source import Diagnostic, SourceError

OWN = {
    "spec": (),
    ".onnx": ("a protobuf, as ONNX models are",),
    ".mlir": ("MLIR text",),
    ".mlirbc": ("StableHLO bytecode",),
    ".jaxexport": ("a program of jax.export",),
    ".pt2": ("a program of torch.export", "a zip archive"),
    ".tflite": ("a model of TensorFlow Lite",),
    ".keras": ("a Keras model", "a zip archive"),
    ".h5": ("HDF5, as Keras writes",),
}
"""For each suffix, the kinds of content that are expected; the suffix's own reader checks the
rest.
"""
# the marker of this kind may occur anywhere in a file, so model files may contain the same bytes
LOOSE = ("a program of jax.export",)


def refuse(file: Path, suffix: str = "spec") -> None:
    """Raises SourceError for a file whose first bytes show that it is no spec, or no model of its
    suffix.
    """
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD)
    except (OSError, ValueError):  # the suffix's own reader reports it
        return
    for pattern, kind, hint in KINDS:
        if pattern.match(head) and (suffix in ("spec", ".jaxexport") or kind not in LOOSE):
            if kind in OWN[suffix]:
                return
            wanted = "a spec" if suffix == "spec" else f"what {suffix} files are"
            raise SourceError(Diagnostic("XL1023", f"{file} is {kind}, not {wanted}", hint=hint))
