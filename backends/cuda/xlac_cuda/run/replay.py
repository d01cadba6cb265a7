"""The fast path for a call like the last one: arrays of the same kinds, types and shapes, in the
same stream. Only their addresses are read.

That costs the host a few microseconds (`bench/gpu/host.py`). Any other call is left to `calls`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xlac_cuda.device.arrays import ALIGN, LEGACY, DeviceArray
from xlac_cuda.device.errors import DeviceError

if TYPE_CHECKING:
    from xlac_cuda.run.calls import Form, Made
    from xlac_cuda.run.executable import CudaExecutable

Known = Callable[[Any], int]  # the address of an array that is like an earlier one; 0 for any other


class Replay:
    """The description of a call: its arrays, and what follows from their shapes. It does not refer
    to the program.
    """

    __slots__ = (
        "_current",
        "_device",
        "_every",
        "_form",
        "_inputs",
        "_names",
        "_raw",
        "_sizes",
        "_stream",
    )

    def __init__(
        self,
        form: Form,
        names: tuple[str, ...],
        inputs: Sequence[Any],
        outputs: Sequence[Any] | None,
        stream: int,
    ) -> None:
        """For a call with arrays of PyTorch and of xlac; `outputs` if the caller passed arrays for
        the results.
        """
        self._form, self._names, self._stream = form, names, stream
        self._inputs = tuple(_known(value, stream) for value in inputs)
        self._every = (
            None
            if outputs is None
            else (*self._inputs, *[_known(value, stream) for value in outputs])
        )
        self._sizes = (
            [] if outputs is None else [*form.read, *(nbytes for _, _, nbytes in form.results)]
        )
        self._device = next(
            (
                value.get_device()
                for value in (*inputs, *(outputs or ()))
                if not isinstance(value, DeviceArray)
            ),
            None,
        )
        self._raw = 0 if stream == LEGACY else stream
        self._current = (
            None if self._device is None else sys.modules["torch"]._C._cuda_getCurrentRawStream
        )

    def call(
        self, executable: CudaExecutable, arrays: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """A call with new results; None if it is not like this one."""
        if named:
            if arrays or tuple(named) != self._names:
                return None
            arrays = tuple(named.values())
        if self._every is not None or len(arrays) != len(self._inputs):
            return None
        return self._again(executable, arrays, self._inputs, self._form.results)

    def into(
        self, executable: CudaExecutable, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> bool:
        """A call into the caller's arrays; False if it is not like this one."""
        if (
            self._every is None
            or len(inputs) != len(self._inputs)
            or len(inputs) + len(outputs) != len(self._every)
        ):
            return False
        try:
            arrays = [
                *[inputs[name] for name in self._names],
                *[outputs[name] for name in self._form.names],
            ]
        except KeyError:
            return False
        return self._again(executable, arrays, self._every, ()) is not None

    def _again(
        self,
        executable: CudaExecutable,
        arrays: Sequence[Any],
        like: tuple[Known, ...],
        made: Sequence[Made],
    ) -> Any:
        """The call with arrays like the known ones, and with new results; None if one differs.
        Optimized for speed.
        """
        stream, turn = self._stream, executable.turn
        if self._current is not None and self._current(self._device) != self._raw:
            return None
        addresses = []
        for value, known in zip(arrays, like, strict=False):  # the number of arguments is equal
            address = known(value)
            if not address or address % ALIGN:
                return None
            addresses.append(address)
        if self._sizes and not self._apart(addresses):
            return None
        with turn.lock:
            if turn.ended is not None or executable.last != stream:
                return None
            turn.push()
            try:
                results = []
                for dtype, shape, nbytes in made:
                    result = executable.results.make(dtype, shape, nbytes, stream)
                    addresses.append(result.address)
                    results.append(result)
                executable.issue(self._form, tuple(addresses), stream)
            except DeviceError as error:
                turn.ended = error.again()
                raise
            finally:
                turn.pop()
        return results[0] if len(results) == 1 else tuple(results)

    def _apart(self, addresses: Sequence[int]) -> bool:
        """Whether written memory overlaps neither read memory nor other written memory."""
        rooms = [(at, at + size) for at, size in zip(addresses, self._sizes, strict=True)]
        for number, (start, stop) in enumerate(rooms[len(self._inputs) :], len(self._inputs)):
            for first, last in rooms[:number]:
                if first < stop and start < last:
                    return False
        return True


def replay(
    form: Form,
    names: tuple[str, ...],
    inputs: Sequence[Any],
    outputs: Sequence[Any] | None,
    stream: int,
) -> Replay | None:
    """The fast path for calls like this one; None if something must be checked in each call."""
    if all(
        isinstance(value, DeviceArray) or _is_tensor(value) for value in (*inputs, *(outputs or ()))
    ):
        return Replay(form, names, inputs, outputs, stream)
    return None


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _known(value: Any, stream: int) -> Known:
    return _result(value, stream) if isinstance(value, DeviceArray) else _tensor(value)


def _tensor(value: Any) -> Known:
    """Matches tensors of PyTorch like a given one."""
    kind, shape, dtype, device = type(value), tuple(value.shape), value.dtype, value.get_device()

    def address(value: Any) -> int:
        if (
            type(value) is kind
            and value.shape == shape
            and value.dtype == dtype
            and value.is_contiguous()
            and value.get_device() == device
        ):
            address: int = value.data_ptr()
            return address
        return 0

    return address


def _result(value: DeviceArray, stream: int) -> Known:
    """Matches xlac's arrays like a given one, made in a stream."""
    shape, dtype, gpu = value.shape, value._dtype, value._home.gpu

    def address(value: Any) -> int:
        if (
            type(value) is DeviceArray
            and value.shape == shape
            and value._dtype is dtype
            and value.stream == stream
            and value._home.gpu is gpu
        ):
            return value.address
        return 0

    return address
