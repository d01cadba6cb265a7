"""Nodes of CUDA graphs: one for each action, in sequence, with nested graphs for loops and
branches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xlac_cuda.device.capture import KernelNode, captured
from xlac_cuda.device.driver import Driver
from xlac_cuda.device.gpu import Gpu, Packed
from xlac_cuda.device.launch import KernelEntry
from xlac_cuda.plan import (
    Action,
    Arrays,
    DeviceAddress,
    DeviceLoop,
    ExchangeDone,
    ExchangeStart,
    KernelRun,
    Mark,
    Move,
    Switch,
    Whole,
)
from xlac_cuda.run.conditions import Conditions

DEVICE = 2  # CU_MEMORYTYPE_DEVICE
CONDITIONAL, WHILE, SWITCH = 13, 1, 2  # CU_GRAPH_NODE_TYPE_…, CU_GRAPH_COND_TYPE_…

Functions = Mapping[KernelEntry, int]  # the function handle of each kernel
Library = Callable[[Whole, Arrays], Callable[[int], None]]
"""Prepares a library operation on arrays (allocating memory and loading code, which is not allowed
during capture), and returns a function that submits it to a stream.
"""


_SIDE = (
    ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t),
    ("level", ctypes.c_size_t), ("type", ctypes.c_int), ("host", ctypes.c_void_p),
    ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("reserved", ctypes.c_void_p),
    ("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t),
)  # fmt: skip


class CopyNode(ctypes.Structure):
    """CUDA_MEMCPY3D"""

    _fields_ = (
        *((f"{side}_{name}", kind) for side in ("source", "target") for name, kind in _SIDE),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    )


class _Conditional(ctypes.Structure):
    """CUgraphNodeParams, of a conditional node"""

    _fields_ = (
        ("kind", ctypes.c_int), ("reserved", ctypes.c_int * 3), ("handle", ctypes.c_uint64),
        ("type", ctypes.c_int), ("size", ctypes.c_uint),
        ("bodies", ctypes.POINTER(ctypes.c_void_p)), ("context", ctypes.c_void_p),
        ("rest", ctypes.c_int64 * 26),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tools:
    """What a program's graphs are built with. `stream` is where library work is captured."""

    gpu: Gpu
    functions: Functions
    library: Library
    stream: int
    conditions: Conditions | None = None

    def able(self, action: Action) -> bool:
        """Whether a graph can do an action."""
        if self.conditions is not None:
            return self.conditions.decide(action)
        return isinstance(action, KernelRun | Move | Whole)


@dataclass(frozen=True, slots=True)
class Moving:
    """A node that uses some of the call's arrays, and its parameters."""

    node: int
    action: KernelRun | Move
    touched: tuple[int, ...]
    given: KernelNode | CopyNode


class Nodes:
    """Adds nodes to graphs, for certain arrays."""

    def __init__(self, tools: Tools, arrays: Arrays) -> None:
        self.moving: list[Moving] = []
        self._tools, self._arrays = tools, arrays
        self._driver: Driver = tools.gpu.driver

    def add(self, graph: int, actions: Sequence[Action], before: int = 0) -> int:
        """Adds a sequence of actions after a node; returns the last node."""
        for action in actions:
            before = self._node(graph, action, before)
        return before

    def _node(self, graph: int, action: Action, before: int) -> int:
        match action:
            case KernelRun():
                kernel = kernel_node(self._tools.functions[action.entry], action, self._arrays)
                return self._moved(self._kernel(graph, before, kernel), action, kernel)
            case Move():
                copy = copy_node(action, self._arrays)
                made = self._driver.handle(
                    "cuGraphAddMemcpyNode",
                    *_after(graph, before),
                    ctypes.addressof(copy),
                    self._tools.gpu.context,
                )
                return self._moved(made, action, copy)
            case Whole():
                return self._whole(graph, action, before)
            case DeviceLoop():
                return self._loop(graph, action, before)
            case Switch():
                return self._switch(graph, action, before)
            case Mark() | ExchangeStart() | ExchangeDone():
                raise AssertionError("the host does that")

    def _moved(self, node: int, action: KernelRun | Move, given: KernelNode | CopyNode) -> int:
        if action.touched:
            self.moving.append(Moving(node, action, action.touched, given))
        return node

    def _kernel(self, graph: int, before: int, kernel: KernelNode) -> int:
        return self._driver.handle(
            "cuGraphAddKernelNode_v2", *_after(graph, before), ctypes.addressof(kernel)
        )

    def _whole(self, graph: int, whole: Whole, before: int) -> int:
        """A library operation, as a child graph."""
        stream, library = self._tools.stream, self._tools.library
        ready = library(whole, self._arrays)
        child = captured(self._driver, stream, lambda: ready(stream))
        try:
            return self._driver.handle("cuGraphAddChildGraphNode", *_after(graph, before), child)
        finally:
            self._driver("cuGraphDestroy", child)

    # ---- conditions decided on the device ----------------------------------------------------

    def _loop(self, graph: int, loop: DeviceLoop, before: int) -> int:
        conditions = self._tools.conditions
        assert conditions is not None
        handle = self._handle(graph)
        before = self._decide(
            graph, self.add(graph, loop.condition, before), conditions.loop, loop.flag, handle
        )
        node, (body,) = self._conditional(graph, before, handle, WHILE, 1)
        last = self.add(body, (*loop.body, *loop.condition))
        self._decide(body, last, conditions.loop, loop.flag, handle)
        return node

    def _switch(self, graph: int, switch: Switch, before: int) -> int:
        conditions, count = self._tools.conditions, len(switch.branches)
        assert conditions is not None
        handle = self._handle(graph)
        before = self._decide(graph, before, conditions.branch, switch.index, handle, count)
        node, bodies = self._conditional(graph, before, handle, SWITCH, count)
        for body, branch in zip(bodies, switch.branches, strict=True):
            if not self.add(body, branch):
                self._driver.handle("cuGraphAddEmptyNode", *_after(body, 0))
        return node

    def _handle(self, graph: int) -> int:
        """A conditional handle of a graph, which kernels set before it is read."""
        return self._driver.handle(
            "cuGraphConditionalHandleCreate", graph, self._tools.gpu.context, 0, 0
        )

    def _decide(
        self, graph: int, before: int, function: int, place: DeviceAddress, handle: int, *count: int
    ) -> int:
        """A kernel node that sets a condition from a value in memory."""
        packed = b"".join(
            number.to_bytes(8, "little") for number in (place.at(self._arrays), handle, *count)
        )
        return self._kernel(graph, before, _kernel_of(function, 1, 1, 0, packed))

    def _conditional(
        self, graph: int, before: int, handle: int, kind: int, size: int
    ) -> tuple[int, list[int]]:
        """The conditional node, and the graphs in it."""
        asked = _Conditional(
            CONDITIONAL, (0, 0, 0), handle, kind, size, None, self._tools.gpu.context
        )
        home, edge, count = _after(graph, before)
        node = self._driver.handle(
            "cuGraphAddNode_v2", home, edge, None, count, ctypes.addressof(asked)
        )
        return node, [asked.bodies[number] or 0 for number in range(size)]


def kernel_node(function: int, run: KernelRun, arrays: Arrays) -> KernelNode:
    """A kernel node's parameters, for given arrays."""
    return _kernel_of(
        function, run.blocks, run.entry.threads, run.entry.dynamic, run.packed(arrays)
    )


def _kernel_of(function: int, blocks: int, threads: int, dynamic: int, packed: bytes) -> KernelNode:
    given = Packed(packed)
    kernel_node = KernelNode(function, (blocks, 1, 1), (threads, 1, 1), dynamic, None, given.extra)
    kernel_node.packed = given
    return kernel_node


def copy_node(move: Move, arrays: Arrays) -> CopyNode:
    """A copy node's parameters, for given arrays."""
    return CopyNode(
        source_type=DEVICE,
        source_device=move.source.at(arrays),
        target_type=DEVICE,
        target_device=move.target.at(arrays),
        width=move.nbytes,
        height=1,
        depth=1,
    )


def _after(graph: int, before: int) -> tuple[int, ctypes.Array[ctypes.c_void_p] | None, int]:
    """A graph, and the node that a new one depends on, if any."""
    return (graph, (ctypes.c_void_p * 1)(before), 1) if before else (graph, None, 0)
