"""Calls that are like the one before look only at where their arrays lie; whatever differs is
looked at wholly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_harness import Counts
from device_doubles import LikeTorch, placed
from numpy.typing import NDArray

from xlac.driver import executable, lower, unfixed
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops import build
from xlac.runtime.compiled import Compiled
from xlac_cuda.backend import CudaBackend
from xlac_cuda.device import outputs
from xlac_cuda.device.arrays import DeviceArray
from xlac_cuda.device.open import gpu
from xlac_cuda.run import executable as executables
from xlac_cuda.run.calls import device_call
from xlac_sdk.dims import Sym, Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request


@pytest.fixture
def model(backend: CudaBackend, counts: Counts) -> Iterator[Compiled]:
    """`y = 2 x`, of 1 to 9 rows."""
    n = Symbol("n", min=1, max=9, opt=4)
    x = build.param("x", DType.F32, (Sym((((n,), 1),)), 4))
    whole = unfixed(Model(Graph("twice", (x,), {"y": build.mul(x, 2.0)}), {}, dims={"n": n}))
    made = executable(lower(whole, backend.target(Request())), backend)
    yield made
    made.executable.close()  # type: ignore[attr-defined]


class Looked:
    """How many calls were looked at wholly."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        monkeypatch.setattr(executables, "device_call", self)

    def __call__(self, *given: Any) -> Any:
        self.times += 1
        return device_call(*given)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


def drawn(seed: int, rows: int = 3) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, 4)).astype(np.float32)


def test_tensors_elsewhere_are_only_asked_where(
    model: Compiled, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [drawn(seed) for seed in range(8)]
    with placed(LikeTorch, monkeypatch, *values) as given:
        for value, tensor in zip(values, given, strict=True):
            assert np.array_equal(model(tensor), 2 * value)
            assert np.array_equal(model(x=tensor), 2 * value)
        assert looked.times == 1


def test_other_shapes_types_and_streams_are_looked_at(
    model: Compiled, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with placed(LikeTorch, monkeypatch, drawn(1), drawn(2, 5), drawn(3).astype(np.float64)) as (
        x,
        longer,
        wide,
    ):
        for times, tensor in enumerate((x, longer, x), 1):
            assert np.array_equal(model(tensor), 2 * tensor.values) and looked.times == times
        with pytest.raises(SourceError, match="XL6002"):
            model(wide)
        with pytest.raises(SourceError, match="XL6001"):
            model(x, x)
        with pytest.raises(SourceError, match="XL6001"):
            model(z=x)
        monkeypatch.setattr(LikeTorch, "is_contiguous", lambda self: False)
        with pytest.raises(SourceError, match="XL6004"):
            model(x)
        monkeypatch.undo()
        before = looked.times
        assert np.array_equal(model(drawn(4)), 2 * drawn(4)) and looked.times == before


def test_a_stream_of_pytorch_that_changes(
    model: Compiled, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with placed(LikeTorch, monkeypatch, drawn(1)) as (x,):
        first = model(x)
        with gpu().current():
            other = gpu().stream()
        monkeypatch.setattr(LikeTorch, "current", other)
        found = [model(x), model(x)]
        assert looked.times == 2 and [one.stream for one in found] == [other] * 2
        assert all(np.array_equal(one, first) for one in found)
        del found
        model.executable.close()  # type: ignore[attr-defined]
        del first
        with gpu().current():
            gpu().drop_stream(other)


def test_results_are_inputs_again(
    model: Compiled, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with placed(LikeTorch, monkeypatch, drawn(1)) as (x,):
        value = model(x)
        for _ in range(4):
            value = model(value)
        assert isinstance(value, DeviceArray) and looked.times == 2
        assert np.array_equal(value, 32 * drawn(1))


def test_arrays_of_the_caller_are_written_again(
    model: Compiled, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with placed(LikeTorch, monkeypatch, drawn(1), drawn(2), drawn(3), drawn(4)) as (
        x,
        y,
        first,
        second,
    ):
        for given, target in ((x, first), (y, second), (y, first)):
            model.run({"x": given}, {"y": target})
            assert np.array_equal(target.read(), 2 * given.values)
        assert looked.times == 1
        for _ in range(2):
            with pytest.raises(SourceError, match="output 'y' shares memory with input 'x'"):
                model.run({"x": x}, {"y": x})
            model.run({"x": x}, {"y": first})
        for wrong, code in (
            ({"z": first}, "XL6004"),
            ({"y": first, "z": first}, "XL6001"),
            ({"y": None}, "XL6004"),
        ):
            with pytest.raises(SourceError, match=f"{code}|XL6001"):
                model.run({"x": x}, wrong)


def test_a_closed_program_says_so(
    model: Compiled, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with placed(LikeTorch, monkeypatch, drawn(1)) as (x,):
        for _ in range(2):
            model(x)
        model.executable.close()  # type: ignore[attr-defined]
        for _ in range(2):
            with pytest.raises(RuntimeError, match="closed"):
                model(x)


def test_memory_of_results_is_bounded(
    model: Compiled, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "SIZES", 2)
    with placed(LikeTorch, monkeypatch, *(drawn(rows, rows) for rows in range(1, 10))) as given:
        model(given[0])
        before = counts("allocations")
        for tensor in given:
            kept = [model(tensor) for _ in range(outputs.KEPT + 2)]
            assert len({one.address for one in kept}) == len(kept)
            del kept
        assert counts("allocations") - before < 4 * outputs.KEPT


def test_events_are_used_again(
    model: Compiled, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with placed(LikeTorch, monkeypatch, drawn(1)) as (x,):
        for _ in range(3):
            counts.reset()
            assert np.array_equal(model(x), 2 * drawn(1))  # in PyTorch's stream
            assert np.array_equal(model(drawn(2)), 2 * drawn(2))  # in the program's
        assert counts.calls("cuStreamWaitEvent") == 2 and counts.calls("cuEventCreate") == 0
