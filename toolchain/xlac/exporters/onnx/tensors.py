"""Tensors of an ONNX model, in its file or in a separate file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from onnx import TensorProto

from xlac.exporters.onnx.writer import ELEMENT
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.support.whole_files import replacing, together

INSIDE = 64 * 2**20  # bytes of tensors up to which all are kept in the model's file
# bytes of a tensor that is always kept there: runtimes read shapes before they open other files
SMALL = 1024
ALIGN = 4096  # alignment of tensors in a separate file, for mapping


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor to be written: its header, and a function that gives its data, `nbytes` bytes in
    row-major order, little-endian.
    """

    header: TensorProto
    nbytes: int
    data: Callable[[], Any]

    @staticmethod
    def of(name: str, type: Type, read: Callable[[], Array]) -> HeldTensor:
        """A tensor of one of our types, whose elements are given by `read`."""
        header = TensorProto(name=name, data_type=ELEMENT[type.dtype], dims=static(type.shape))
        return HeldTensor(
            header,
            type.nbytes,
            lambda: np.ascontiguousarray(read()).reshape(-1).view(np.uint8).data,
        )

    def inside(self) -> TensorProto:
        """The tensor with its data."""
        proto = TensorProto()
        proto.CopyFrom(self.header)
        proto.raw_data = bytes(self.data())
        return proto

    def outside(self, out: IO[bytes], location: str) -> TensorProto:
        """The tensor with its data appended to a file of tensors, called `location`."""
        out.write(b"\0" * (-out.tell() % ALIGN))
        proto = TensorProto()
        proto.CopyFrom(self.header)
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", out.tell()), ("length", self.nbytes)):
            entry = proto.external_data.add()
            entry.key, entry.value = key, str(value)
        out.write(self.data())
        return proto


def whole(proto: onnx.ModelProto, tensors: Mapping[str, HeldTensor]) -> onnx.ModelProto:
    """The model with its tensors inside."""
    for tensor in tensors.values():
        proto.graph.initializer.append(tensor.inside())
    return proto


def save(
    proto: onnx.ModelProto,
    tensors: Mapping[str, HeldTensor],
    file: Path,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Writes a model to a file, and its tensors to one beside it where they are large; all or
    nothing. Returns the files.

    `progress` gets the bytes of tensors written and those in all.
    """
    total = sum(tensor.nbytes for tensor in tensors.values())
    if total <= INSIDE:
        with replacing(file) as path:
            path.write_bytes(whole(proto, tensors).SerializeToString())
        return [file]
    data = file.with_name(f"{file.name}.data")
    with together(data, file) as (beside, path):
        with beside.open("wb") as out:
            for tensor in tensors.values():
                small = tensor.nbytes < SMALL
                proto.graph.initializer.append(
                    tensor.inside() if small else tensor.outside(out, data.name)
                )
                if progress is not None:
                    progress(out.tell(), total)
        path.write_bytes(proto.SerializeToString())
    return [file, data]
