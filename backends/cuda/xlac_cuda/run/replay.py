"""Calls like the last one: arrays of the same kinds, types and shapes, in the same stream. Where
they lie is all that is looked at.

That costs the host a few microseconds (`bench/gpu/host.py`). Whatever is not as it was is left to
`calls`.
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

Known = Callable[[Any], int]  # where an array lies that is like one before; 0 for any other


class Replay:
    """What a call was: its arrays, and what their shapes decided. Nothing here belongs to the
    program.
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
        """Of a call with arrays of PyTorch and of ours; `outputs`, where the caller gave room for
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
            [] if outputs is None else [*form.read, *(nbytes for _, _, nbytes in form.made)]
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
        """A call whose results are new; None where it is not like this one."""
        if named:
            if arrays or tuple(named) != self._names:
                return None
            arrays = tuple(named.values())
        if self._every is not None or len(arrays) != len(self._inputs):
            return None
        return self._again(executable, arrays, self._inputs, self._form.made)

    def into(
        self, executable: CudaExecutable, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> bool:
        """A call into arrays of the caller's; False where it is not like this one."""
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
        """The call with arrays like those known, and with new results; None where one is not like
        them. Written for speed.
        """
        stream, turn = self._stream, executable.turn
        if self._current is not None and self._current(self._device) != self._raw:
            return None
        addresses = []
        for value, known in zip(arrays, like, strict=False):  # as many
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
        """Whether what is written lies apart from what is read, and from what else is written."""
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
    """How calls like this one are made again; None where something has to be looked at in each."""
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
    """Tensors of PyTorch like one."""
    kind, shape, dtype, device = type(value), tuple(value.shape), value.dtype, value.get_device()

    def address(value: Any) -> int:
        if (
            type(value) is kind
            and value.shape == shape
            and value.dtype == dtype
            and value.is_contiguous()
            and value.get_device() == device
        ):
            found: int = value.data_ptr()
            return found
        return 0

    return address


def _result(value: DeviceArray, stream: int) -> Known:
    """Our own arrays like one, made in a stream."""
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
