"""CUDA graphs: actions in a row as one launch, made node by node, with the call's arrays put in when they change."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xlac_cuda.driver import Driver
from xlac_cuda.gpu import Gpu, Packed
from xlac_cuda.launch import Entry
from xlac_cuda.plan import Arrays, Move, Run, Straight, Whole

DEVICE = 2  # CU_MEMORYTYPE_DEVICE
VARIANTS = 4  # of a graph: sets of arrays that calls take turns among
THREAD_LOCAL = 1  # a capture that other threads' calls do not disturb

Functions = Mapping[Entry, int]  # the handle of each kernel
Library = Callable[[Whole, Arrays, int], None]  # runs a whole operation on arrays, in a stream


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = (
        ("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("dynamic", ctypes.c_uint),
        ("each", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )  # fmt: skip
    packed: Packed  # what `extra` points into


_SIDE = (
    ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t), ("level", ctypes.c_size_t),
    ("type", ctypes.c_int), ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("array", ctypes.c_void_p),
    ("reserved", ctypes.c_void_p), ("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t),
)  # fmt: skip


class _Copy(ctypes.Structure):
    """CUDA_MEMCPY3D"""

    _fields_ = (
        *((f"{side}_{name}", kind) for side in ("source", "target") for name, kind in _SIDE),
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t),
    )  # fmt: skip


class Graph:
    """Actions as one launch. The context is current in every method.

    There is a variant for each of the last few sets of arrays, so that calls which take turns among some change nothing.
    """

    def __init__(self, gpu: Gpu, actions: Sequence[Straight], functions: Functions, library: Library, arrays: Arrays, stream: int) -> None:
        self._gpu, self._actions, self._functions, self._library, self._stream = gpu, actions, functions, library, stream
        self._start = gpu.driver.raw["cuGraphLaunch"]
        self._moves = any(action.touched for action in actions)
        self._rigid = any(isinstance(action, Whole) and action.touched for action in actions)  # a library's work cannot be changed
        self._variants: dict[tuple[int, ...], _Variant] = {}
        self._variant(tuple(arrays) if self._moves else ())

    def launch(self, arrays: Arrays, stream: int) -> None:
        """Runs everything, in a stream, on these arrays."""
        key = tuple(arrays) if self._moves else ()
        found = self._variants.get(key) or self._variant(key)
        code = self._start(found.exec, stream)
        if code:
            raise self._gpu.driver.failure("cuGraphLaunch", code)

    def _variant(self, arrays: tuple[int, ...]) -> _Variant:
        """One for other arrays: anew, or the oldest changed."""
        if len(self._variants) < VARIANTS:
            made = _Variant(self._gpu, self._actions, self._functions, self._library, arrays, self._stream)
        else:
            made = self._variants.pop(next(iter(self._variants)))
            try:
                if not self._rigid:
                    made.move_to(arrays)
            except BaseException:
                made.close()
                raise
            if self._rigid:
                made.close()
                made = _Variant(self._gpu, self._actions, self._functions, self._library, arrays, self._stream)
        self._variants[arrays] = made
        return made

    def close(self) -> None:
        """Gives the graph back."""
        while self._variants:
            self._variants.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class _Moving:
    """A node that touches some of the call's arrays, and its parameters."""

    node: int
    action: Run | Move
    touched: tuple[int, ...]
    given: KernelNode | _Copy


class _Variant:
    """A graph on certain arrays, ready to be launched."""

    def __init__(self, gpu: Gpu, actions: Sequence[Straight], functions: Functions, library: Library, arrays: Arrays, stream: int) -> None:
        self._gpu, self._functions, self._library, self._stream = gpu, functions, library, stream
        self._driver, self._arrays = gpu.driver, arrays
        self._moving: list[_Moving] = []
        self._graph, self.exec = self._driver.made("cuGraphCreate", 0), 0
        try:
            before = 0
            for action in actions:
                before = self._node(action, before)
            self.exec = self._driver.made("cuGraphInstantiateWithFlags", self._graph, 0)
        except BaseException:
            self.close()
            raise

    def _node(self, action: Straight, before: int) -> int:
        """Adds an action that begins after another's node has ended."""
        edge = ctypes.c_void_p(before)
        after = (self._graph, ctypes.addressof(edge), 1) if before else (self._graph, None, 0)
        match action:
            case Run():
                kernel = self._kernel(action)
                node = self._driver.made("cuGraphAddKernelNode_v2", *after, ctypes.addressof(kernel))
                if action.touched:
                    self._moving.append(_Moving(node, action, action.touched, kernel))
            case Move():
                copy = self._copy(action)
                node = self._driver.made("cuGraphAddMemcpyNode", *after, ctypes.addressof(copy), self._gpu.context)
                if action.touched:
                    self._moving.append(_Moving(node, action, action.touched, copy))
            case Whole():
                child = self._captured(action)
                try:
                    node = self._driver.made("cuGraphAddChildGraphNode", *after, child)
                finally:
                    self._driver("cuGraphDestroy", child)
        return node

    def _kernel(self, run: Run) -> KernelNode:
        """The parameters of a node."""
        packed, entry = Packed(run.packed(self._arrays)), run.entry
        parameters = KernelNode(self._functions[run.entry], (run.blocks, 1, 1), (entry.threads, 1, 1), entry.dynamic, None, packed.extra)
        parameters.packed = packed
        return parameters

    def _copy(self, move: Move) -> _Copy:
        return _Copy(
            source_type=DEVICE, source_device=move.source.at(self._arrays), target_type=DEVICE,
            target_device=move.target.at(self._arrays), width=move.nbytes, height=1, depth=1,
        )  # fmt: skip

    def _captured(self, whole: Whole) -> int:
        """What a library does, as a graph."""
        return captured(self._driver, self._stream, lambda: self._library(whole, self._arrays, self._stream))

    def move_to(self, arrays: Arrays) -> None:
        """Other arrays, from the next launch on."""
        before, self._arrays = self._arrays, arrays
        for moving in self._moving:
            if any(arrays[number] != before[number] for number in moving.touched):
                self._set(moving)

    def _set(self, moving: _Moving) -> None:
        """A node's parameters, for the arrays of now."""
        match moving.action, moving.given:
            case Run() as run, KernelNode() as kernel:
                kernel.packed.fill(run.packed(self._arrays))
                self._driver("cuGraphExecKernelNodeSetParams_v2", self.exec, moving.node, ctypes.addressof(kernel))
            case Move() as move, _Copy() as copy:
                copy.source_device, copy.target_device = move.source.at(self._arrays), move.target.at(self._arrays)
                self._driver("cuGraphExecMemcpyNodeSetParams", self.exec, moving.node, ctypes.addressof(copy), self._gpu.context)

    def close(self) -> None:
        """Gives the graph back."""
        for call, handle in (("cuGraphExecDestroy", self.exec), ("cuGraphDestroy", self._graph)):
            if handle:
                self._driver(call, handle)
        self._graph = self.exec = 0


def captured(driver: Driver, stream: int, work: Callable[[], None]) -> int:
    """What is asked of a stream meanwhile, as a graph; nothing of it runs."""
    found = ctypes.c_void_p()
    driver("cuStreamBeginCapture_v2", stream, THREAD_LOCAL)
    try:
        work()
    except BaseException:
        driver.raw["cuStreamEndCapture"](stream, ctypes.addressof(found))
        if found.value:
            driver("cuGraphDestroy", found.value)
        raise
    driver("cuStreamEndCapture", stream, ctypes.addressof(found))
    assert found.value is not None
    return found.value
