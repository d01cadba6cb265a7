"""CUDA graphs: a sequence of actions as one launch, whose nodes are updated when the call's arrays
change.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from xlac_cuda.device.capture import KernelNode
from xlac_cuda.plan import Action, Arrays, KernelRun, Move
from xlac_cuda.run.nodes import CopyNode, Moving, Nodes, Tools

VARIANTS = 4  # variants of a graph, for sets of arrays that calls alternate between


class LaunchGraph:
    """A sequence of actions as one launch. The context must be current in every method.

    There is a variant for each of the last few sets of arrays, so that calls that alternate between
    them need no updates.
    """

    def __init__(self, tools: Tools, actions: Sequence[Action], arrays: Arrays) -> None:
        self._tools, self._actions = tools, actions
        self._start = tools.gpu.driver.raw["cuGraphLaunch"]
        self._moves = any(action.touched for action in actions)
        # graphs that cannot be updated
        self._rigid = any(
            action.touched and not isinstance(action, KernelRun | Move) for action in actions
        )
        self._variants: dict[tuple[int, ...], _Variant] = {}
        self._variant(tuple(arrays) if self._moves else ())

    def launch(self, arrays: Arrays, stream: int) -> None:
        """Launches everything in a stream, on these arrays."""
        key = tuple(arrays) if self._moves else ()
        variant = self._variants.get(key) or self._variant(key)
        code = self._start(variant.exec, stream)
        if code:
            raise self._tools.gpu.driver.failure("cuGraphLaunch", code)

    def _variant(self, arrays: tuple[int, ...]) -> _Variant:
        """A variant for other arrays: a new one, or the oldest updated."""
        variant = None
        if len(self._variants) == VARIANTS:
            oldest = self._variants.pop(next(iter(self._variants)))
            variant = self._changed(oldest, arrays)
        self._variants[arrays] = variant or _Variant(self._tools, self._actions, arrays)
        return self._variants[arrays]

    def _changed(self, oldest: _Variant, arrays: tuple[int, ...]) -> _Variant | None:
        """The variant updated for other arrays; None, and destroyed, if it cannot be updated."""
        try:
            if not self._rigid:
                oldest.move_to(arrays)
                return oldest
        except BaseException:
            oldest.close()
            raise
        oldest.close()
        return None

    def close(self) -> None:
        """Destroys the graph."""
        while self._variants:
            self._variants.popitem()[1].close()


class _Variant:
    """An executable graph for certain arrays."""

    def __init__(self, tools: Tools, actions: Sequence[Action], arrays: Arrays) -> None:
        self._driver, self._context, self._arrays = tools.gpu.driver, tools.gpu.context, arrays
        self._graph, self.exec = self._driver.handle("cuGraphCreate", 0), 0
        try:
            nodes = Nodes(tools, arrays)
            nodes.add(self._graph, actions)
            self._moving = nodes.moving
            self.exec = self._driver.handle("cuGraphInstantiateWithFlags", self._graph, 0)
        except BaseException:
            self.close()
            raise

    def move_to(self, arrays: Arrays) -> None:
        """Updates the graph to other arrays."""
        before, self._arrays = self._arrays, arrays
        for moving in self._moving:
            if any(arrays[number] != before[number] for number in moving.touched):
                self._set(moving)

    def _set(self, moving: Moving) -> None:
        """Sets a node's parameters for the current arrays."""
        match moving.action, moving.given:
            case KernelRun() as run, KernelNode() as kernel:
                kernel.packed.fill(run.packed(self._arrays))
                self._driver(
                    "cuGraphExecKernelNodeSetParams_v2",
                    self.exec,
                    moving.node,
                    ctypes.addressof(kernel),
                )
            case Move() as move, CopyNode() as copy:
                copy.source_device, copy.target_device = (
                    move.source.at(self._arrays),
                    move.target.at(self._arrays),
                )
                self._driver(
                    "cuGraphExecMemcpyNodeSetParams",
                    self.exec,
                    moving.node,
                    ctypes.addressof(copy),
                    self._context,
                )

    def close(self) -> None:
        """Destroys the graph."""
        for call, handle in (("cuGraphExecDestroy", self.exec), ("cuGraphDestroy", self._graph)):
            if handle:
                self._driver(call, handle)
        self._graph = self.exec = 0
