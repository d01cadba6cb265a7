"""Arrays of other libraries on the stand-in's device: what CuPy, JAX and PyTorch show of theirs."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from xlac_cuda.device import dlpack
from xlac_cuda.device.arrays import LEGACY
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.open import gpu
from xlac_sdk.dtypes import DType


class OnDevice:
    """An array of some other library: its memory, and the stream that it works in."""

    def __init__(self, values: NDArray[Any], where: Gpu) -> None:
        self.values, self.gpu = values, where
        with where.current():
            self.stream = where.stream()
            self.address = where.alloc(values.nbytes)
            where.upload(
                self.address, np.ascontiguousarray(values).ctypes.data, values.nbytes, self.stream
            )

    def read(self) -> NDArray[Any]:
        found = np.empty_like(self.values)
        with self.gpu.current():
            self.gpu.download(found.ctypes.data, self.address, found.nbytes, self.stream)
            self.gpu.sync(self.stream)
        return found

    def free(self) -> None:
        with self.gpu.current():
            self.gpu.free(self.address)
            if self.stream != LEGACY:
                self.gpu.drop_stream(self.stream)


class LikeCupy(OnDevice):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "stream": self.stream,
        }


class LikeJax(OnDevice):
    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, 0

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        with self.gpu.current():
            event = self.gpu.event()
            self.gpu.record(event, self.stream)
            self.gpu.wait(stream or 1, event)
            self.gpu.drop_event(event)
        return dlpack.give(self, self.address, 0, DType.of(self.values.dtype), self.values.shape)


class LikeTorch(OnDevice):
    is_cuda = True
    current = 0  # the stream that PyTorch works in, as it tells it

    def __init__(self, values: NDArray[Any], where: Gpu) -> None:
        super().__init__(values, where)
        self.shape, self.dtype = values.shape, f"torch.{values.dtype}"
        self.read()
        with where.current():
            where.drop_stream(self.stream)
        self.stream = LEGACY  # as PyTorch's usual one, which it tells as 0

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return 0

    def is_contiguous(self) -> bool:
        return True


Kind = TypeVar("Kind", bound=OnDevice)


@contextmanager
def placed(
    kind: type[Kind], monkeypatch: pytest.MonkeyPatch, *values: NDArray[Any]
) -> Iterator[list[Kind]]:
    """Arrays of a kind, for as long as this lasts."""
    where = gpu()
    found = [kind(one, where) for one in values]
    module = types.ModuleType("torch")
    module.Tensor, module._C = (
        LikeTorch,
        types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: LikeTorch.current),
    )  # type: ignore[attr-defined]
    if kind is LikeTorch:
        monkeypatch.setitem(sys.modules, "torch", module)
    try:
        yield found
    finally:
        for one in found:
            one.free()
