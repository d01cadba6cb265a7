"""Arrays on a GPU: those of other libraries as inputs, and xlac's as outputs, which other libraries
use without a copy.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlac_cuda.device import dlpack
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.array_values import wrong
from xlac_sdk.host.call_binding import other_shape, other_type
from xlac_sdk.programs.program import Slot

if TYPE_CHECKING:
    from xlac_cuda.device.outputs import DeviceOutputs

LEGACY = 1  # CU_STREAM_LEGACY
ALIGN = 16  # bytes of alignment that kernels assume; arrays with less are copied


class DeviceArray:
    """A result on a GPU. torch.from_dlpack(y) and cupy.asarray(y) share its memory; `y.numpy()`
    copies it to the host.

    It may still be being computed: work on `stream` is ordered after it, and the two protocols make
    other streams wait. When it is dropped, its memory is reused after the work submitted to the
    default stream until then; a reader on another stream must keep it alive until it is done.
    """

    __slots__ = ("__weakref__", "_dtype", "_home", "_read", "address", "nbytes", "shape", "stream")

    def __init__(
        self,
        home: DeviceOutputs,
        address: int,
        dtype: DType,
        shape: tuple[int, ...],
        nbytes: int,
        stream: int,
    ) -> None:
        self.shape = shape
        self.address = address
        self.nbytes = nbytes
        self.stream = stream
        self._home = home
        self._dtype = dtype
        self._read = False  # whether others may read it on the default stream

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of its elements."""
        return self._dtype.numpy

    @property
    def device(self) -> int:
        """The number of the GPU."""
        return self._home.gpu.index

    def numpy(self) -> Array:
        """A copy in the host's memory, once it is complete."""
        array = np.empty(self.shape, self.dtype)
        self._home.read(array, self)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("NumPy can read an array on a GPU only by a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def item(self) -> Any:
        """Its one element, as a Python number."""
        return self.numpy().item()

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({self._dtype}{list(self.shape)} on GPU {self.device})"

    def __del__(self) -> None:
        self._home.give_back(self.nbytes, (self.address, self.stream, self._read))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._dtype is DType.BF16:
            raise AttributeError("__cuda_array_interface__ has no bfloat16; DLPack has")
        self._read = True
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "strides": None,
            "stream": self.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, **asked: Any) -> Any:
        """A DLPack capsule. `stream` is where the consumer will read, which is made to wait for
        pending work; -1: no synchronization.
        """
        if asked.get("copy"):
            raise BufferError("copy=True is not supported; copy the imported tensor")
        reader = LEGACY if stream is None else stream
        self._read = True
        if reader != -1:
            with self._home.gpu.current():
                self._home.order(self.stream, reader)
        return dlpack.give(self, self.address, self.device, self._dtype, self.shape)


class Given(NamedTuple):
    """An input on a GPU.

    `stream` is where its producer works, None if that was made to wait already; `lasts` says that
    this stream is never destroyed, so the call may use it.
    """

    address: int
    dtype: DType | None
    shape: tuple[int, ...]
    device: int
    dense: bool
    stream: int | None
    owner: object
    lasts: bool = False


def is_on_gpu(value: Any) -> bool:
    """Whether an input is a GPU array of any library."""
    if isinstance(value, np.ndarray):
        return False
    if getattr(value, "is_cuda", False) or isinstance(value, DeviceArray):
        return True
    device = getattr(value, "__dlpack_device__", None)
    if device is not None:
        return bool(device()[0] == dlpack.CUDA)
    return hasattr(value, "__cuda_array_interface__")


def given(value: Any, stream: int) -> Given:
    """An input on a GPU; `stream` is made to wait for its producer, if the protocol
    supports that.
    """
    if isinstance(value, DeviceArray):
        lasts = value.stream != value._home.stream  # then a caller has worked on it
        return Given(
            value.address, value._dtype, value.shape, value.device, True, value.stream, value, lasts
        )
    if getattr(value, "is_cuda", False):
        of_torch = _torch(value)
        if of_torch is not None:
            return of_torch
    if hasattr(value, "__cuda_array_interface__"):
        return _interfaced(value)
    capsule = value.__dlpack__(stream=stream)
    tensor = dlpack.read(capsule)
    return Given(
        tensor.address,
        tensor.dtype,
        tensor.shape,
        tensor.device,
        tensor.dense,
        None,
        (capsule, value),
    )


def _torch(value: Any) -> Given | None:
    """A tensor of PyTorch by its attributes, at a tenth of the cost of the protocols."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    device = value.get_device()
    stream = torch._C._cuda_getCurrentRawStream(device)
    return Given(
        value.data_ptr(),
        _torch_dtype(value.dtype),
        tuple(value.shape),
        device,
        value.is_contiguous(),
        stream or LEGACY,
        value,
        True,
    )


_torch_dtypes: dict[Any, DType | None] = {}


def _torch_dtype(dtype: Any) -> DType | None:
    if dtype not in _torch_dtypes:
        name = str(dtype).removeprefix("torch.")
        names = {"bfloat16": DType.BF16, "bool": DType.BOOL}
        _torch_dtypes[dtype] = names.get(name) or next(
            (d for d in DType if d.numpy.name == name), None
        )
    return _torch_dtypes[dtype]


def _interfaced(value: Any) -> Given:
    interface = value.__cuda_array_interface__
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    dtype = np.dtype(interface["typestr"])
    known = next((d for d in DType if d.numpy == dtype and d is not DType.BF16), None)
    steps = tuple(stride // dtype.itemsize for stride in strides) if strides else None
    stream = interface.get("stream") or LEGACY
    device = getattr(getattr(value, "device", None), "id", None)
    return Given(
        int(interface["data"][0]),
        known,
        shape,
        device if isinstance(device, int) else -1,
        dlpack.dense(shape, steps),
        stream,
        value,
    )


def check(kind: str, slot: Slot, shape: tuple[int, ...], array: Given, device: int) -> None:
    """Raises SourceError for an array that is not what the model takes. Nothing is converted."""
    if (
        array.dtype is slot.dtype
        and array.shape == shape
        and array.dense
        and array.device in (device, -1)
    ):
        return
    name = f"{kind} '{slot.name}'"
    if array.dtype is not slot.dtype:
        raise other_type(
            kind, slot.name, slot.dtype, array.dtype or "of a type that xlac does not have"
        )
    if array.shape != shape:
        raise other_shape(kind, slot.name, shape, array.shape)
    if not array.dense:
        raise wrong("XL6004", f"{name} is not contiguous", "x.contiguous() makes a copy that is")
    raise wrong("XL6006", f"{name} is on GPU {array.device}, and the model on GPU {device}")
