"""Recognizes the format of a file of tensors by its first bytes: safetensors, NumPy's .npz, or a
PyTorch state dict.
"""

from __future__ import annotations

from pathlib import Path

from xlac.spec.weights.archive import Archive, NpzFile
from xlac.spec.weights.safetensors import SafetensorsFile
from xlac.spec.weights.state_dict import StateDict
from xlac.spec.weights.tensor_files import BadFile, TensorFile
from xlac.support.dependencies import note


def opened(path: Path) -> TensorFile:
    """Opens a file of tensors. Raises BadFile and OSError."""
    with note(path).open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    if not zipped:
        return SafetensorsFile(path)
    archive = Archive(path)
    if any(name.endswith("/data.pkl") for name in archive.members):
        return StateDict(archive)
    if archive.members and all(name.endswith(".npy") for name in archive.members):
        return NpzFile(archive)
    raise BadFile("it is a zip archive, and neither NumPy's (.npz) nor a state dict of PyTorch")
