"""The stand-in of NCCL refuses what NCCL does not allow, and the runtime's waits are needed."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from cuda_harness import OnStandin
from nccl_harness import NcclStandin, by_ranks

from xlac_cuda.backend import CudaBackend
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.open import gpu
from xlac_cuda.plan import DeviceAddress, ExchangeDone, ExchangeStart
from xlac_cuda.ranks import nccl
from xlac_cuda.ranks.exchanges import RankExchanges
from xlac_cuda.ranks.groups import RankGroups, groups_of
from xlac_cuda.ranks.nccl import IN_PROGRESS
from xlac_sdk.dtypes import DType
from xlac_sdk.host.ranks.communicator import PreparedExchange
from xlac_sdk.host.ranks.threads import ThreadRank
from xlac_sdk.target import Request, Target

F32, ADD = 7, 0
BYTES = 4096


class RankOnGpu:
    """A rank of two with its GPU, its group of both, and some memory."""

    def __init__(self, rank: ThreadRank, groups: RankGroups, place: int) -> None:
        self.rank, self.groups, self.place = rank, groups, place
        self.gpu, self.nccl, self.both = groups.gpu, groups.nccl, groups.of((0, 1))

    def reduce(self, source: int, target: int, **given: Any) -> None:
        """ncclAllReduce of 8 elements, or otherwise as given."""
        about = {"count": 8, "type": F32, "how": ADD, "comm": self.both} | given
        stream = about.pop("stream", self.groups.stream)
        self.nccl("ncclAllReduce", source, target, *about.values(), stream)


@contextmanager
def joined(rank: ThreadRank, where: Gpu) -> Iterator[RankOnGpu]:
    """A rank in a group of two. What it has is given back where it fails, too, as a process does
    that ends.
    """
    with where.current():
        groups, place = groups_of(rank, where), where.alloc(BYTES)
        where.clear(place, BYTES, groups.stream)
        where.sync(groups.stream)
        try:
            groups.join([((0, 1), rank.rank)])
            yield RankOnGpu(rank, groups, place)
            where.sync(groups.stream)
        except BaseException:
            groups.abort()
            where.drop_stream(groups.stream)
            raise
        finally:
            where.free(place)


def on_two(work: Callable[[RankOnGpu], Any]) -> list[Any]:
    """What some work gives on each of two ranks."""

    def one(rank: ThreadRank, backend: OnStandin) -> Any:
        with joined(rank, gpu(backend.device)) as own:
            return work(own)

    return by_ranks(2, one)


MISTAKES: dict[str, Callable[[RankOnGpu], None]] = {
    "not of one allocation": lambda r: r.reduce(r.place, r.place + 4096 - 16),
    "operands and results overlap": lambda r: r.reduce(r.place, r.place + 16),
    "no such type": lambda r: r.reduce(r.place, r.place, type=10),
    "no such combination": lambda r: r.reduce(r.place, r.place, how=4),
    "no such communicator": lambda r: r.reduce(r.place, r.place, comm=8),
    "not one of the communicator's GPU": lambda r: r.reduce(r.place, r.place, stream=1),
    "no such peer": lambda r: r.nccl(
        "ncclSend", r.place, 8, F32, r.rank.rank, r.both, r.groups.stream
    ),
    "no such root": lambda r: r.nccl(
        "ncclBroadcast", r.place, r.place, 8, F32, 2, r.both, r.groups.stream
    ),
    "a group ends that did not begin": lambda r: r.nccl("ncclGroupEnd"),
    "not a finalized communicator": lambda r: r.nccl("ncclCommDestroy", r.both),
}


@pytest.mark.parametrize("rule", MISTAKES)
def test_calls_that_break_a_rule_are_refused(standin_nccl: NcclStandin, rule: str) -> None:
    """By one rank after the other, as the complaint is that of the last."""

    def one(own: RankOnGpu) -> str:
        said = ""
        for turn in range(2):
            if turn == own.rank.rank:
                with pytest.raises(DeviceError, match="invalid"):
                    MISTAKES[rule](own)
                said = standin_nccl.complaint
            own.rank.broadcast(b"")
        return said

    for said in on_two(one):
        assert rule in said


def test_a_call_while_another_is_in_progress(standin_nccl: NcclStandin) -> None:
    def one(own: RankOnGpu) -> None:
        own.reduce(own.place, own.place)
        with pytest.raises(DeviceError, match="invalid usage"):
            own.reduce(own.place, own.place)
        own.groups.settled(own.both, "sum")

    on_two(one)


@pytest.mark.parametrize("other", [{"count": 7}, {"type": 2}, {"how": 2}])
def test_ranks_that_ask_for_different_things(
    standin_nccl: NcclStandin, other: dict[str, int]
) -> None:
    def one(own: RankOnGpu) -> None:
        own.reduce(own.place, own.place, **(other if own.rank.rank else {}))
        own.groups.settled(own.both, "sum")
        event = own.gpu.event()
        own.gpu.record(event, own.groups.stream)
        try:
            while not own.gpu.has_reached(event):
                own.groups.check(own.both, "sum")
        finally:
            own.gpu.drop_event(event)

    with pytest.raises(RuntimeError, match="NCCL reports: invalid usage"):
        on_two(one)
    assert "calls ncclAllReduce of" in standin_nccl.complaint


def test_two_ranks_on_one_gpu(standin_nccl: NcclStandin) -> None:
    def one(rank: ThreadRank, backend: OnStandin) -> None:
        with joined(rank, gpu(0)):
            pass

    with pytest.raises(RuntimeError, match="NCCL reports: invalid usage"):
        by_ranks(2, one)
    assert "duplicate GPU: ranks 0 and 1" in standin_nccl.complaint


def exchange(kind: str, own: int) -> PreparedExchange:
    return PreparedExchange(0, kind, DType.F32, "add", (0, 1), own, 0, (), 8, 8, "total")


def test_kernels_after_a_collective_wait_for_it(standin_nccl: NcclStandin) -> None:
    """And the collective waits for those before: streams alone order them, not the host."""

    def one(own: RankOnGpu) -> Any:
        exchanges = RankExchanges(own.gpu, own.rank, [exchange("all_reduce", own.rank.rank)])
        own.rank.settle()
        stream, (source, target, copy) = own.gpu.stream(), (own.place + n * 64 for n in range(3))
        given = np.arange(8, dtype=np.float32) + own.rank.rank
        own.gpu.upload(source, given.ctypes.data, given.nbytes, stream)
        places = (DeviceAddress(-1, source), DeviceAddress(-1, target))
        exchanges.start(ExchangeStart(0, *places), (), stream)
        exchanges.done(ExchangeDone(0), stream)
        own.gpu.move(copy, target, 32, stream)
        got = np.empty(8, np.float32)
        own.gpu.download(got.ctypes.data, copy, 32, stream)
        own.gpu.sync(stream)
        exchanges.wait()
        exchanges.close()
        own.gpu.drop_stream(stream)
        return got

    for got in on_two(one):
        np.testing.assert_array_equal(got, 2 * np.arange(8) + 1)


def test_a_rank_that_never_comes(standin_nccl: NcclStandin) -> None:
    """The one that waits aborts what is on its GPU, and ends."""

    def one(own: RankOnGpu) -> None:
        own.rank.limit = 0.2
        exchanges = RankExchanges(own.gpu, own.rank, [exchange("all_reduce", own.rank.rank)])
        own.rank.settle()
        if own.rank.rank == 0:
            places = DeviceAddress(-1, own.place), DeviceAddress(-1, own.place + 64)
            exchanges.start(ExchangeStart(0, *places), (), own.groups.stream)
            try:
                exchanges.wait()
            finally:
                exchanges.close()
        own.rank.ranks.barrier.wait()

    with pytest.raises(RuntimeError, match="rank 0 has waited too long in collective 'total'"):
        on_two(one)


def test_ranks_without_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "_files", list)
    nccl.wanted.cache_clear()
    with pytest.raises(Exception, match="NCCL, which is not installed here"):
        nccl.wanted()
    nccl.wanted.cache_clear()


def test_what_is_in_progress_is_no_error(standin_nccl: NcclStandin) -> None:
    library = nccl.wanted()
    assert library.text_of(IN_PROGRESS) == "NCCL operation in progress"
    assert len(library.unique_id()) == ctypes.sizeof(nccl.UniqueId)


def test_what_is_not_combined_is_part_of_a_target() -> None:
    target = CudaBackend().target(Request(arch="sm_90a"))
    assert ("max", DType.F32) in target.uncombined
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target
