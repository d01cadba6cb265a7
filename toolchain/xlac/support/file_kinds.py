"""Recognises file formats by their first bytes, with a hint for each; and SavedModels, which are
folders.
"""

from __future__ import annotations

import re
from pathlib import Path

SAVED_MODEL = "saved_model.pb"  # a folder with this file is a SavedModel of TensorFlow
HEAD = 1 << 16  # bytes that are examined
JAX = "in JAX: Path('f.mlir').write_text(jax.jit(f).lower(*args).as_text())"
KINDS: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), kind, hint)
    for pattern, kind, hint in (
        (rb"ML\xefR", "StableHLO bytecode", "name it .mlirbc"),
        (rb"\s*HloModule\s", "HLO text of XLA", JAX),
        (
            rb'\s*(?:#loc[^\n]*\n\s*)*(?:module\b[^:\n]*\{|"builtin\.module"|module attributes)',
            "MLIR text",
            "name it .mlir, if it is StableHLO",
        ),
        (rb".{0,65000}ML\xefR", "a program of jax.export", "name it .jaxexport"),
        (rb".{4}TFL3", "a model of TensorFlow Lite", "name it .tflite"),
        (rb"GGUF", "GGUF", "xlac reads safetensors"),
        (rb"\x89HDF", "HDF5, as Keras writes", "name it .h5, if it is a model"),
        (rb"PK\x03\x04.{26}(?:metadata|config)\.json", "a Keras model", "name it .keras"),
        (
            rb"PK\x03\x04.{0,65000}(?:archive_format|models/)",
            "a program of torch.export",
            "name it .pt2",
        ),
        (
            rb"PK\x03\x04",
            "a zip archive",
            "a program of torch.export is named .pt2; weights and arrays are no model",
        ),
        (
            rb"\x80[\x02-\x05]",
            "a pickle",
            "export the model: torch.export.save(torch.export.export(model, args), 'model.pt2')",
        ),
        (rb".{8}\{\s*\"", "safetensors", "a model is a spec that names it: weights: FILE"),
        (rb"\x93NUMPY", "a NumPy array", "give it to an input: --input x=@x.npy"),
        (
            rb"\x08[\x01-\x20](?:\x12|\x3a|\x42|\x1a)",
            "a protobuf, as ONNX models are",
            "name it .onnx",
        ),
        (rb"\x7fELF|MZ|\xcf\xfa\xed\xfe", "a program or library", ""),
    )
)


def kind_of(head: bytes) -> tuple[str, str] | None:
    """The format of a file that begins with `head`, and a hint; None for an unknown one."""
    return next(((kind, hint) for pattern, kind, hint in KINDS if pattern.match(head)), None)


def is_saved_model(source: object) -> bool:
    """Whether this is the folder of a SavedModel of TensorFlow."""
    return isinstance(source, str | Path) and (Path(source) / SAVED_MODEL).is_file()
