"""Files of LoRA factors (`lora.safetensors` of a run), given as weights after the files of the base
weights: merged when read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from pathlib import Path

import numpy as np

from xlac.ir.op import Array
from xlac.spec.weights.safetensors import SafetensorsFile
from xlac.spec.weights.tensor_files import BadFile, StoredTensor, TensorFile
from xlac_sdk.dtypes import DType

METADATA = "lora"
"""The metadata key under which a file has, for each weight, the scale of its factors, and whether
the weight is [in, out] (`transposed`).
"""
TensorsByName = dict[str, tuple[TensorFile, str]]


def merged(weight: Array, a: Array, b: Array, scale: float, transposed: bool) -> Array:
    """A weight plus its low-rank change, with `a` of [rank, in] and `b` of [out, rank], as an array
    of the weight's type; computed in float64.
    """
    wide = [np.asarray(x).astype(np.float64) for x in (weight, a, b)]
    change = wide[2].reshape(len(wide[2]), -1) @ wide[1].reshape(len(wide[1]), -1)
    if transposed:
        change = change.T
    changed: Array = wide[0] + scale * change.reshape(wide[0].shape)
    return changed.astype(np.asarray(weight).dtype)


@dataclass(eq=False)
class MergedFile:
    """One weight of a file, with the factors of another file merged into it."""

    base: TensorFile
    name: str
    factors: SafetensorsFile
    parts: tuple[str, str]
    scale: float
    transposed: bool
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.factors.path

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """The single weight."""
        return {self.name: self.base.tensors[self.name]}

    def __getitem__(self, name: str, /) -> Array:
        a, b = (self.factors[part] for part in self.parts)
        weight = merged(self.base[name], a, b, self.scale, self.transposed)
        weight.flags.writeable = False
        return weight


def factor_file(file: TensorFile) -> bool:
    """Whether a file has factors for weights of other files."""
    return isinstance(file, SafetensorsFile) and METADATA in file.metadata


def with_factors(tensors: TensorsByName, file: TensorFile) -> TensorsByName:
    """Tensors by name, with the changes of a file of factors: weights with merged factors, and
    whole tensors that were trained beside them. Raises BadFile for factors that do not fit.
    """
    assert isinstance(file, SafetensorsFile)
    changed, parts = dict(tensors), set[str]()
    for name, (scale, transposed) in _factor_metadata(file).items():
        head = name.removesuffix(".weight")
        names = next(
            (pair for pair in _pairs(head) if all(part in file.tensors for part in pair)), None
        )
        if names is None:
            raise BadFile(f"it has no factors of {name!r}")
        if name not in tensors:
            raise BadFile(f"it has factors of {name!r}, which no file before it has")
        parts.update(names)
        base, own = tensors[name]
        a, b = (file.tensors[part] for part in names)
        turned = _transposed(name, base.tensors[own], a, b, transposed)
        changed[name] = (MergedFile(base, own, file, names, scale, turned), own)
    for name in file.tensors:
        if name not in parts:
            changed[name] = (file, name)
    return changed


def _pairs(head: str) -> tuple[tuple[str, str], ...]:
    return (
        (f"{head}.lora_A.weight", f"{head}.lora_B.weight"),
        (f"{head}.lora_embedding_A", f"{head}.lora_embedding_B"),
    )


def _factor_metadata(file: SafetensorsFile) -> dict[str, tuple[float, bool | None]]:
    """By weight: the scale of its factors, and whether it is [in, out], if the file has that."""
    try:
        entries = json.loads(file.metadata[METADATA])
        scales = {
            str(n): (float(one["scale"]), one.get("transposed")) for n, one in entries.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise BadFile("what it says of its factors is not as written") from None
    for name, (scale, transposed) in scales.items():
        if not isfinite(scale) or not isinstance(transposed, bool | None):
            raise BadFile(f"its metadata of the factors of {name!r} are invalid")
    return scales


def _transposed(
    name: str, weight: StoredTensor, a: StoredTensor, b: StoredTensor, known: bool | None
) -> bool:
    """Whether the product of factors is transposed; decided by shapes where the file does not
    say.
    """
    if any(not isinstance(t.dtype, DType) or not t.dtype.is_float for t in (weight, a, b)):
        raise BadFile(f"{name!r} and its factors are not floats")
    product = (*b.shape[:1], prod(a.shape[1:]))
    fits = [
        way
        for way in (False, True)
        if len(a.shape) > 1
        and len(b.shape) > 1
        and a.shape[0] == b.shape[1]
        and _flat(weight, way) == (product[::-1] if way else product)
        and prod(b.shape[2:]) == 1
    ]
    if not fits or (known is not None and known not in fits):
        shown = " and ".join(str(list(t.shape)) for t in (a, b))
        raise BadFile(f"factors of {shown} do not fit {name!r}, {list(weight.shape)}")
    return fits[0] if known is None else known


def _flat(weight: StoredTensor, turned: bool) -> tuple[int, int]:
    """The shape of a weight flattened to two axes."""
    if turned:
        return (prod(weight.shape[:-1]), weight.shape[-1]) if weight.shape else (1, 1)
    return (weight.shape[0], prod(weight.shape[1:])) if weight.shape else (1, 1)
