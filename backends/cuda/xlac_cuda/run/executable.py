"""A loaded program on a GPU: weights uploaded once, one arena, and graphs that are recorded for
each set of sizes and replayed.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xlac_cuda.device.arrays import is_on_gpu
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.launch import KernelEntry, entries
from xlac_cuda.device.memory import DeviceMemory, released
from xlac_cuda.device.open import gpu
from xlac_cuda.device.outputs import DeviceOutputs
from xlac_cuda.device.pinned import pinned_array
from xlac_cuda.device.staging import Staging
from xlac_cuda.libraries.calls import Libraries
from xlac_cuda.plan import Action, Arrays, Planner, count
from xlac_cuda.run.calls import Form, Shapes, device_call
from xlac_cuda.run.conditions import loaded
from xlac_cuda.run.faults import Faults
from xlac_cuda.run.graph import LaunchGraph
from xlac_cuda.run.in_flight import CudaCall
from xlac_cuda.run.nodes import Tools
from xlac_cuda.run.replay import Replay
from xlac_cuda.run.steps import Part, Performer, blocking, exchanges_of, graphs, recorded
from xlac_cuda.run.turn import Turn
from xlac_sdk.dtypes import Array
from xlac_sdk.host import stopping
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.libraries.findings import Findings
from xlac_sdk.lowering.stop_checks import changes_state
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

KEPT = 16  # sets of sizes whose graphs are cached
REFUSED = {1, 801}  # CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED
MOST_ACTIONS = 20_000  # actions of a graph at most; longer programs are launched one by one

Sizes = Mapping[str, int]


class CudaExecutable:
    """A program on one GPU. Calls from several threads are serialized, as they share the arena;
    programs do not wait for each other. Everything is released by `close`, when this is collected,
    and when loading fails.
    """

    def __init__(
        self,
        artifact: Path,
        program: Program,
        target: Target,
        device: Gpu | None = None,
        shared: DeviceMemory | None = None,
    ) -> None:
        """`shared`: memory that already has the program's arena, state and weights."""
        self.program = program
        self.names = tuple(slot.name for slot in program.inputs)
        self.gpu = device or gpu()
        self.turn = Turn(self.gpu, program.name)
        self._parts: OrderedDict[tuple[int, ...], tuple[Part, ...]] = OrderedDict()
        self._alone = blocking()
        self.forms: dict[Shapes, Form] = {}
        self.faults = Faults(self.gpu, program, target, image := artifact.read_bytes())
        self.replay: Replay | None = None  # the last call with arrays of the device
        self._give_back: list[Callable[[], None]] = []
        give_back = self._give_back
        self._closing = weakref.finalize(self, _close, self.gpu, give_back, self._parts)
        try:
            with self.gpu.current():
                self._load(image, give_back, shared)
        except BaseException:
            self._closing()
            raise

    def _load(
        self, image: bytes, give_back: list[Callable[[], None]], shared: DeviceMemory | None
    ) -> None:
        program, device = self.program, self.gpu
        self._torn, self._changes = False, any(map(changes_state, program.steps))
        self._library = Libraries(device, program)  # finalizers must not refer to this object
        give_back.append(self._library.close)
        module = device.load(image)
        give_back.append(lambda: device.unload(module))
        self._entries: Mapping[Kernel, KernelEntry] = entries(program.kernels)
        self._functions = {
            entry: device.function(module, entry.symbol, entry.dynamic, entry.packing.size)
            for entry in self._entries.values()
        }
        self.memory = DeviceMemory(device, program) if shared is None else shared.beside(program)
        give_back.append(self.memory.free)
        self.results = DeviceOutputs(device, self.faults.named)
        self.stream = self.last = self.results.stream
        give_back.append(self.results.close)
        arrays = (*program.inputs, *program.outputs)
        largest = max((slot.nbytes for slot in (*arrays, *self.memory.weights)), default=1)
        self.staging = Staging(device, largest, len(arrays))
        give_back.append(self.staging.close)
        for slot, address in self.memory.weights.items():
            self.staging.upload(address, _bytes(program.constants[slot.symbol]), self.stream)
        if shared is None:
            device.clear(self.memory.state, max(program.state_bytes, 1), self.stream)
        device.sync(self.stream)
        numbers = {slot: number for number, slot in enumerate(arrays)}
        self._planner = Planner(self.memory.fixed, numbers, self._entries)
        conditions = loaded(device, program)
        if conditions is not None:
            give_back.append(conditions.close)
        self._tools = Tools(device, self._functions, self._library, self.stream, conditions)
        exchanges = exchanges_of(program, device)
        if exchanges is not None:
            give_back.append(exchanges.close)
        self._performer = Performer(
            device, self._functions, self._library, self.stream, self._alone, exchanges
        )

    # ---- calls -------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name; all of them arrays of the host."""
        CudaCall(self).whole(inputs, outputs)

    def begin(self) -> CudaCall:
        """A call in parts; those before it have ended. Others wait until it has, too."""
        return CudaCall(self)

    def host_memory(self, nbytes: int) -> Array | None:
        """Pinned memory, which the GPU copies by itself; None where none is left."""
        with self.gpu.current():
            return pinned_array(self.gpu, max(nbytes, 1))

    def fast(self, *arrays: Any, **named: Any) -> Any:
        """A call with arrays on the GPU, positional or by keyword: its outputs are on the GPU too,
        one output alone, several as a tuple. NotImplemented for calls without GPU arrays. Returns
        when the work has been submitted.
        """
        try:
            if self.replay is not None:
                outputs = self.replay.call(self, arrays, named)
                if outputs is not None:
                    return outputs
            if not any(is_on_gpu(value) for value in (*arrays, *named.values())):
                return NotImplemented
            return device_call(self, arrays, named)
        except DeviceError as error:
            raise self.faults.named(
                error, {**dict(zip(self.names, arrays, strict=False)), **named}
            ) from None

    def into(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> bool:
        """`run` with arrays some of which are on the GPU; False if none is. Results on the GPU may
        still be pending.
        """
        try:
            if self.replay is not None and self.replay.into(self, inputs, outputs):
                return True
            if not any(is_on_gpu(value) for value in (*inputs.values(), *outputs.values())):
                return False
            device_call(self, (), inputs, outputs)
        except DeviceError as error:
            raise self.faults.named(error, inputs) from None
        return True

    def remember(self, findings: Findings) -> None:
        """Choices of library engines are looked up here first, and stored here."""
        self._library.findings = findings

    def turn_to(self, stream: int) -> None:
        """Makes the program work in a stream, ordered after its work in another: they share the
        arena.
        """
        self.results.order(self.last, stream)
        self.last = stream

    def reset(self) -> None:
        """Resets the state."""
        with self.turn:
            self.turn_to(self.stream)
            self.gpu.clear(self.memory.state, max(self.program.state_bytes, 1), self.stream)
            self._torn = False

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """A copy of bytes of the state block, from the GPU."""
        with self.turn:
            self.turn_to(self.stream)
            end = self.program.state_bytes if stop is None else stop
            block = np.zeros(end - start, np.uint8)
            if block.nbytes:
                address = block.__array_interface__["data"][0]
                self.gpu.download(address, self.memory.state + start, block.nbytes, self.stream)
                self.gpu.sync(self.stream)
            return block

    def write_state(self, block: Array, start: int = 0) -> None:
        """Overwrites bytes of the state block."""
        with self.turn:
            self.turn_to(self.stream)
            part = np.ascontiguousarray(block)
            if part.nbytes:
                address = part.__array_interface__["data"][0]
                self.gpu.upload(self.memory.state + start, address, part.nbytes, self.stream)
                self.gpu.sync(self.stream)
            self._torn &= part.nbytes < self.program.state_bytes

    def close(self) -> None:
        """Releases everything that the program has on the device; idempotent."""
        if self.turn.close():
            self._closing()

    def issue(self, form: Form, arrays: Arrays, stream: int) -> None:
        """Submits a whole call, on arrays of the device."""
        self.faults.form = form
        if self._torn:
            raise stopping.torn()
        performer = self._performer
        if performer.stream != stream:
            performer = self._performer = replace(performer, stream=stream)
        parts = self._parts.get(form.key)
        if parts is None and (self._alone or count(self.program.steps, form.sizes) > MOST_ACTIONS):
            actions = self._planner.actions(self.program.steps, form.sizes)
            self._perform(performer, recorded(actions, self._tools.able, None), arrays)
            return
        if parts is None:
            parts = self._record(form.sizes, arrays)
            if len(self._parts) >= KEPT:
                _drop(self._parts.popitem(last=False)[1])
            self._parts[form.key] = parts
        elif len(self._parts) > 1:
            self._parts.move_to_end(form.key)
        self._perform(performer, parts, arrays)

    def _perform(self, performer: Performer, parts: Iterable[Part], arrays: Arrays) -> None:
        """Submits it, and marks the state as undefined if the call ended in the middle."""
        self._torn = self._changes
        performer.perform(parts, arrays)
        self._torn = False

    def _record(self, sizes: Sizes, arrays: Arrays) -> tuple[Part, ...]:
        """A call's parts as graphs; with loops and branches on the host if the driver refuses those
        of graphs.
        """
        try:
            return self._recorded(sizes, arrays)
        except DeviceError as error:
            if self._tools.conditions is None or error.code not in REFUSED:
                raise
        self._tools = replace(self._tools, conditions=None)
        return self._recorded(sizes, arrays)

    def _recorded(self, sizes: Sizes, arrays: Arrays) -> tuple[Part, ...]:
        parts: list[LaunchGraph] = []

        def graph(actions: Sequence[Action]) -> LaunchGraph:
            parts.append(LaunchGraph(self._tools, actions, arrays))
            return parts[-1]

        try:
            return recorded(
                self._planner.actions(self.program.steps, sizes), self._tools.able, graph
            )
        except BaseException:
            _drop(parts)
            raise


def _bytes(array: Array) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _drop(parts: Sequence[Part]) -> None:
    for graph in graphs(parts):
        graph.close()


def _close(
    device: Gpu,
    give_back: list[Callable[[], None]],
    parts: OrderedDict[tuple[int, ...], tuple[Part, ...]],
) -> None:
    closers = [graph.close for kept in parts.values() for graph in graphs(kept)]
    parts.clear()
    released(device, [*closers, *reversed(give_back)])
    give_back.clear()
