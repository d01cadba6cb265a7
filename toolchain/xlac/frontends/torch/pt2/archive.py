"""Reads files of torch.export without torch.export.load, which unpickles, evaluates and loads
libraries from them.

The archive is read here, its JSON is validated (`checked.py`), and PyTorch only deserializes the
validated program and tensors. Other members (sample inputs, compiled libraries, further files) are
not opened.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch._export.serde.schema import SCHEMA_VERSION
from torch._export.serde.serialize import ExportedProgramDeserializer, deserialize_scalar_type

from xlac.frontends.torch.pt2.checked import Refused, payloads, program

MODEL = "model"
SPREAD_BYTES = 1 << 30
"""How many bytes more than the file its tensors may take, as strides may repeat elements (an
expanded buffer).
"""


def read(file: Path) -> Any:
    """The program that `torch.export.save` wrote. Raises Refused, OSError, zipfile.BadZipFile, and
    PyTorch's own exceptions.
    """
    with zipfile.ZipFile(file) as held:
        archive = Pt2Archive(held, file.stat().st_size)
        if "version" in archive and "serialized_exported_program.json" in archive:
            text = archive.bytes("serialized_exported_program.json")
            weights, constants = (
                archive.pickled(f"serialized_{name}.pt") for name in ("state_dict", "constants")
            )
        else:
            archive.inside()
            text = archive.bytes(f"models/{MODEL}.json")
            weights, constants = (archive.tensors(folder) for folder in ("weights", "constants"))
    said = program(text)
    version = said.schema_version
    if version.major != SCHEMA_VERSION[0]:
        raise Refused(
            f"it was written in version {version.major}.{version.minor} of the format, PyTorch "
            f"{torch.__version__} reads "
            f"{SCHEMA_VERSION[0]}: write it anew with torch.export.save"
        )
    return ExportedProgramDeserializer().deserialize(said, weights, constants, None)


class Pt2Archive:
    """The members of a zip file, uncompressed, unique, and together no larger than the file."""

    def __init__(self, held: zipfile.ZipFile, size: int) -> None:
        self.held, self.size, self.root = held, size, ""
        self.members: dict[str, zipfile.ZipInfo] = {}
        for info in held.infolist():
            if info.filename in self.members:
                raise Refused(f"its member '{info.filename[:80]}' occurs twice")
            if (
                info.compress_type != zipfile.ZIP_STORED
                or info.compress_size != info.file_size
                or info.flag_bits & 1
            ):
                raise Refused(
                    f"its member '{info.filename[:80]}' is compressed, which torch.export.save "
                    "does not do: save it anew"
                )
            self.members[info.filename] = info
        if sum(info.file_size for info in self.members.values()) > size:
            raise Refused("its members together are larger than the file")

    def __contains__(self, name: str) -> bool:
        return self.root + name in self.members

    def inside(self) -> None:
        """Makes names relative to the single folder of the archive."""
        self.root = next(iter(self.members), "").partition("/")[0] + "/"
        if (
            "archive_format" not in self
            or self.bytes("archive_format") != b"pt2"
            or f"models/{MODEL}.json" not in self
        ):
            raise Refused("it holds no program called 'model'")

    def bytes(self, name: str) -> bytes:
        """The contents of a member, with its checksum verified."""
        if name not in self:
            raise Refused(f"its member '{name}' is missing")
        return self.held.read(self.members[self.root + name])

    def pickled(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors of a member that torch.save wrote; no other objects are unpickled."""
        tensors = _unpickled(self.bytes(name)) if self.members[self.root + name].file_size else {}
        if not isinstance(tensors, dict) or not all(
            isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in tensors.items()
        ):
            raise Refused(f"its member '{name}' holds something else than tensors by name")
        return tensors

    def tensors(self, folder: str) -> dict[str, torch.Tensor]:
        """The tensors of `data/weights` or `data/constants`, by their names in the program."""
        legacy = f"data/{folder}/{MODEL}.pt"
        if legacy in self:
            return self.pickled(legacy)
        config = payloads(self.bytes(f"data/{folder}/{MODEL}_{folder}_config.json"))
        stored: dict[tuple[str, torch.dtype], torch.Tensor] = {}
        tensors, budget = {}, self.size + SPREAD_BYTES
        for path, payload in config.items():
            name = f"data/{folder}/{payload.path_name}"
            if payload.use_pickle:
                tensors[path] = _tensor(_unpickled(self.bytes(name)), name)
                continue
            if payload.tensor_meta is None:
                raise Refused(f"its member '{name}' is an object of Python's own, no tensor")
            dtype = deserialize_scalar_type(payload.tensor_meta.dtype)
            if (name, dtype) not in stored:
                stored[name, dtype] = self._elements(name, dtype)
            tensors[path] = _strided(stored[name, dtype], payload, path)
            budget -= tensors[path].numel() * tensors[path].element_size()
            if budget < 0:
                raise Refused("its tensors repeat what it holds to more than 1 GiB above its size")
        return tensors

    def _elements(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """All elements of a member as a vector."""
        held = bytearray(self.bytes(name))
        if len(held) % dtype.itemsize:
            raise Refused(
                f"its member '{name}' has {len(held)} bytes, not a multiple of an "
                f"element's {dtype.itemsize}"
            )
        return torch.frombuffer(held, dtype=dtype) if held else torch.empty(0, dtype=dtype)


def _strided(elements: torch.Tensor, payload: Any, path: str) -> torch.Tensor:
    """A strided tensor over the elements of a member, which it must not exceed."""
    meta = payload.tensor_meta
    shape, strides, offset = (
        _numbers(part, path) for part in (meta.sizes, meta.strides, [meta.storage_offset])
    )
    if len(shape) != len(strides) or min((*shape, *strides, *offset), default=0) < 0:
        raise Refused(f"tensor '{path}' has no shape: sizes {list(shape)}, strides {list(strides)}")
    last = offset[0] + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if math.prod(shape) and last >= elements.numel():
        raise Refused(f"tensor '{path}' reaches element {last} of {elements.numel()}")
    if not math.prod(shape):
        return torch.empty(shape, dtype=elements.dtype)
    tensor = torch.as_strided(elements, shape, strides, offset[0])
    return (
        torch.nn.Parameter(tensor, requires_grad=bool(meta.requires_grad))
        if payload.is_param
        else tensor
    )


def _numbers(sizes: Any, path: str) -> tuple[int, ...]:
    if any(s.type != "as_int" for s in sizes):
        raise Refused(f"tensor '{path}' has no shape of numbers")
    return tuple(s.value for s in sizes)


def _unpickled(data: bytes) -> Any:
    """Data that torch.save wrote, by PyTorch's restricted unpickler (weights_only), which makes
    only tensors and containers.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise Refused("it holds a pickle of an old form")
    with zipfile.ZipFile(io.BytesIO(data)) as held:
        Pt2Archive(held, len(data))
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _tensor(tensor: Any, name: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise Refused(f"its member '{name}' is an object of Python's own, no tensor")
    return tensor
