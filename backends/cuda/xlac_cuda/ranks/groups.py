"""The groups of ranks that this process belongs to, as communicators of NCCL on one GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.ranks.nccl import ID_BYTES, IN_PROGRESS, Nccl, wanted
from xlac_sdk.host.ranks.communicator import Communicator

Members = tuple[int, ...]
MOMENT = 50e-6  # seconds between two looks at what is in progress
JOINING, LEAVING = "all ranks to join by NCCL", "all ranks to leave NCCL"


class RankGroups:
    """One communicator for each group, and the stream of all of their collectives, which has them
    in the one order that ranks share. NCCL's calls return before other ranks have made them, so
    nothing waits for one that is gone without a limit. The context must be current in every method.
    """

    def __init__(self, nccl: Nccl, gpu: Gpu, here: Communicator) -> None:
        self.nccl, self.gpu, self.here = nccl, gpu, here
        self.stream = gpu.stream()
        self._communicators: dict[Members, int] = {}

    def join(self, groups: Sequence[tuple[Members, int]]) -> None:
        """Makes the groups that are not there, with this rank's number in each. All ranks call it
        with as many, one after the other in one order.
        """
        new = {members: own for members, own in groups if members not in self._communicators}
        if not new:
            return
        for (members, own), unique in zip(new.items(), self._ids(list(new)), strict=True):
            made = self.nccl.joined(len(members), unique, own)
            self._communicators[members] = made
            self.settled(made, JOINING)

    def _ids(self, groups: Sequence[Members]) -> list[bytes]:
        """The unique id of each group, made by its first rank."""
        own = np.zeros((len(groups), ID_BYTES), np.uint8)
        for place, members in enumerate(groups):
            if members[0] == self.here.rank:
                own[place] = np.frombuffer(self.nccl.unique_id(), np.uint8)
        made = self.here.gather(own)
        told = self.here.broadcast(b"" if made is None else np.stack(made).tobytes(), JOINING)
        every = np.frombuffer(told, np.uint8).reshape(self.here.size, len(groups), ID_BYTES)
        return [every[members[0], place].tobytes() for place, members in enumerate(groups)]

    def of(self, members: Members) -> int:
        """The communicator of a group."""
        return self._communicators[members]

    def settled(self, communicator: int, name: str) -> None:
        """Waits until the calls of a communicator so far have taken effect: others may have to come
        for that. Ends all ranks where one of them has failed, or is late.
        """
        began = None
        while self._in_progress(communicator, name):
            began = began or time.monotonic()
            self.check_limit(name, time.monotonic() - began)
            time.sleep(MOMENT)
        if began is not None:
            self.here.overdue("", 0.0)

    def check(self, communicator: int, name: str) -> None:
        """Ends all ranks where a collective of a communicator has failed."""
        self._in_progress(communicator, name)

    def _in_progress(self, communicator: int, name: str) -> bool:
        state = self.nccl.state(communicator)
        if state in (0, IN_PROGRESS):
            return state == IN_PROGRESS
        text = self.nccl.text_of(state)
        self.abort()
        self.here.fail(name, f"NCCL reports: {text}")

    def check_limit(self, name: str, waited: float) -> None:
        """Ends all ranks where this one has waited too long: what is under way on the GPU is
        aborted first, or it would wait on.
        """
        if self.here.overdue(name, waited):
            self.abort()
            self.here.late(name, waited)

    def abort(self) -> None:
        """Ends all communicators, whatever is under way."""
        while self._communicators:
            self.nccl.raw["ncclCommAbort"](self._communicators.popitem()[1])

    def close(self) -> None:
        """Leaves all groups, together with the other ranks."""
        with self.gpu.current():
            try:
                while self._communicators:
                    communicator = next(reversed(self._communicators.values()))
                    self.nccl("ncclCommFinalize", communicator)
                    self.settled(communicator, LEAVING)
                    self._communicators.popitem()
                    self.nccl("ncclCommDestroy", communicator)
            except DeviceError:
                self.abort()
            self.gpu.drop_stream(self.stream)


_every: WeakKeyDictionary[Communicator, dict[int, RankGroups]] = WeakKeyDictionary()


def groups_of(here: Communicator, gpu: Gpu) -> RankGroups:
    """The groups of a rank on a GPU, the same for all of its programs. Raises UnsupportedError
    without NCCL.
    """
    known = _every.setdefault(here, {})
    if gpu.index not in known:
        known[gpu.index] = RankGroups(wanted(), gpu, here)
        here.when_closed(lambda: known.pop(gpu.index).close())
    return known[gpu.index]
