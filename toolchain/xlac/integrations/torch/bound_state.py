"""Binds a program's state to PyTorch's tensors: in place where the backend can, else copied in and
out at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from xlac.frontends.torch.layout import is_dense, order
from xlac.integrations.torch.step_graph import SharedTensor
from xlac.runtime.compiled import Compiled
from xlac_sdk.dtypes import Array
from xlac_sdk.programs.program import Role, Slot
from xlac_sdk.source import Diagnostic, SourceError

ALIGNMENT = 64  # bytes, of each state tensor of a program


class BoundState:
    """The state of one program. Call `bind` with the tensors before each run, `copy_back` after it.

    A tensor that is not dense or not aligned to ALIGNMENT is copied even where the backend works in
    place.
    """

    def __init__(self, compiled: Compiled, state: Sequence[SharedTensor]) -> None:
        by_name = {kept.name: n for n, kept in enumerate(state)}
        slots = [s for s in compiled.program.slots if s.role is Role.STATE]
        self._slots: list[tuple[Slot, int]] = [(s, by_name[s.name]) for s in slots]
        self._state, self._executable = state, compiled.executable
        self._bytes = compiled.program.state_bytes
        self._in_place = getattr(compiled.executable, "bind_state", None)
        self._pointers: list[int] = []
        self._copies: dict[int, torch.Tensor] = {}

    def bind(self, tensors: Sequence[torch.Tensor]) -> None:
        """Makes these tensors the state. Raises SourceError for another dtype, shape or device than
        the program was made for, and for tensors that share memory.
        """
        pointers = [t.data_ptr() for t in tensors]
        if pointers != self._pointers:
            self._bind_in_place(tensors)
            self._pointers = pointers
        for at, copy in self._copies.items():
            copy.copy_(self._permuted(at, tensors[at]))
        if self._in_place is None and self._slots:
            self._executable.write_state(self._block(tensors))

    def copy_back(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copies what the program wrote to those tensors that are not bound in place."""
        if self._in_place is None and self._slots:
            block = self._executable.read_state()
            for slot, at in self._slots:
                part = _part(block, slot)
                self._permuted(at, tensors[at]).copy_(
                    torch.from_numpy(part).view(tensors[at].dtype).view(slot.extents({}))
                )
        for at, copy in self._copies.items():
            self._permuted(at, tensors[at]).copy_(copy)

    def _permuted(self, at: int, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor with its axes in the order in which the program has them."""
        perm = self._state[at].perm
        detached = tensor.detach()
        return detached if perm is None else detached.permute(perm)

    def _bind_in_place(self, tensors: Sequence[torch.Tensor]) -> None:
        for kept, tensor in zip(self._state, tensors, strict=True):
            _check_unchanged(kept, tensor)
        _check_apart(self._state, tensors)
        self._copies = {}
        if self._in_place is None:
            return
        addresses = []
        for _, at in self._slots:
            laid = self._permuted(at, tensors[at])
            if not laid.is_contiguous() or laid.data_ptr() % ALIGNMENT:
                self._copies[at] = laid = torch.empty(laid.shape, dtype=laid.dtype)
            addresses.append(laid.data_ptr())
        self._in_place(addresses)

    def _block(self, tensors: Sequence[torch.Tensor]) -> Array:
        block = np.zeros(self._bytes, np.uint8)
        for slot, at in self._slots:
            laid = self._permuted(at, tensors[at]).contiguous()
            _part(block, slot)[:] = laid.view(-1).view(torch.uint8).numpy()
        return block


def _part(block: Array, slot: Slot) -> Array:
    return block[slot.offset : slot.offset + slot.nbytes]


def _check_unchanged(kept: SharedTensor, tensor: torch.Tensor) -> None:
    """Raises SourceError where a tensor's dtype, shape, device or memory order has changed since
    the step was made.
    """
    example = kept.example
    if (tensor.dtype, tensor.shape, tensor.device) != (
        example.dtype,
        example.shape,
        example.device,
    ):
        now = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}"
        was = (
            f"{str(example.dtype).removeprefix('torch.')}{list(example.shape)} on {example.device}"
        )
        raise _changed(f"'{kept.name}' is {now} now, and was {was} when the step was made")
    if kept.perm is not None and order(tensor) not in (None, kept.perm):
        raise _changed(f"'{kept.name}' lies in memory in another order than when the step was made")


def _changed(problem: str) -> SourceError:
    return SourceError(Diagnostic("XL7311", problem, hint="make another step"))


def _check_apart(state: Sequence[SharedTensor], tensors: Sequence[torch.Tensor]) -> None:
    """Raises SourceError where two dense tensors overlap in memory."""
    rooms = sorted(
        (t.data_ptr(), t.numel() * t.element_size(), kept.name)
        for kept, t in zip(state, tensors, strict=True)
        if t.numel() and is_dense(t)
    )
    for (start, nbytes, name), (following, _, other) in pairwise(rooms):
        if following < start + nbytes:
            problem = f"'{name}' and '{other}' share memory, and are two tensors"
            hint = "let both be the same torch.nn.Parameter: a.weight = b.weight"
            raise SourceError(Diagnostic("XL7311", problem, hint=hint))
