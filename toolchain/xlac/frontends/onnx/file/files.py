"""The file of an ONNX model and the files of data beside it, mapped into memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xlac.frontends.onnx.file.messages import messages
from xlac.frontends.onnx.file.wire import without_data
from xlac.ir.op import ShapeError
from xlac.support.dependencies import mapped
from xlac.support.protobuf import MalformedProtobuf
from xlac_sdk.source import Diagnostic, SourceError


class Files:
    """Locates the data of a model's tensors. Without a path the model is in memory and may not
    refer to files.
    """

    def __init__(self, path: Path | None = None, allow_outside: bool = False) -> None:
        self.path = path
        self.allow_outside = allow_outside
        # the location that tensors stored in the model file itself are given
        self.own = os.urandom(16).hex()
        self._maps: dict[Path, memoryview] = {}

    def model(self) -> Any:
        """The ModelProto without tensor data, which stays in the file. Raises SourceError."""
        read = messages().ModelProto.FromString  # first, since it says that onnx is missing
        from google.protobuf.message import DecodeError

        assert self.path is not None
        try:
            proto = read(without_data(self._map(self.path), self.own))
        except (MalformedProtobuf, DecodeError) as error:
            raise SourceError(
                Diagnostic("XL7001", f"{self.path} is not an ONNX model: {error}")
            ) from None
        except OSError as error:
            raise SourceError(
                Diagnostic("XL3001", f"{self.path} cannot be read: {error.strerror}")
            ) from None
        if not proto.HasField("graph"):
            raise SourceError(
                Diagnostic("XL7001", f"{self.path} is not an ONNX model: it has no graph")
            )
        return proto

    def external(self, tensor: Any) -> memoryview:
        """The bytes of a tensor with external data. Raises ShapeError."""
        place = {entry.key: entry.value for entry in tensor.external_data}
        location = place.get("location", "")
        try:
            offset, length = int(place.get("offset", "0")), int(place.get("length", "-1"))
        except ValueError:
            raise ShapeError(f"the place of its data is {place}") from None
        assert self.path is not None or location != self.own
        data = (
            self._map(self.path)
            if location == self.own and self.path is not None
            else self._beside(location)
        )
        length = len(data) - offset if length < 0 else length
        if offset < 0 or length < 0 or offset + length > len(data):
            raise ShapeError(
                f"its data, {length} bytes from {offset} on, lies outside '{location}', which has "
                f"{len(data)}"
            )
        return data[offset : offset + length]

    def _beside(self, location: str) -> memoryview:
        """Opens a file of external data. It must be in the model's folder unless `allow_outside` is
        set.
        """
        if self.path is None:
            raise ShapeError(
                "its data is in another file, and a model in memory has no folder",
                hint="load the data first, or give the path",
            )
        folder = self.path.parent.resolve()
        try:
            file = (folder / location).resolve()
            there = bool(location) and file.is_file()
        except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
            raise ShapeError(
                f"its data is in {location!r}, which is not a valid file name: {error}"
            ) from None
        if not (self.allow_outside or file.is_relative_to(folder)):
            raise ShapeError(
                f"its data is in '{location}', outside the model's folder",
                hint="--allow-outside permits that",
            )
        if not there:
            raise ShapeError(f"its data is in '{location}', and there is no such file")
        try:
            return self._map(file)
        except OSError as error:
            raise ShapeError(
                f"its data is in '{location}', which cannot be read: {error.strerror}"
            ) from None

    def _map(self, file: Path) -> memoryview:
        if file not in self._maps:
            self._maps[file] = mapped(file)
        return self._maps[file]
