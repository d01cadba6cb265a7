"""Arrays on the GPU go in and come out without a copy, in the order of the streams that made and
read them.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_harness import Counts
from device_doubles import LikeCupy, LikeJax, LikeTorch, OnDevice, placed
from numpy.typing import NDArray

from xlac.driver import executable, lower
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops import build
from xlac.runtime.compiled import Compiled
from xlac_cuda.backend import CudaBackend
from xlac_cuda.device import dlpack
from xlac_cuda.device.arrays import DeviceArray
from xlac_cuda.device.open import gpu
from xlac_cuda.run.graph import VARIANTS
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

SHAPE = (3, 5)


@pytest.fixture
def model(backend: CudaBackend) -> Iterator[Compiled]:
    """`total = 2 x + y`, and `most`, the largest of each row."""
    x, y = (build.param(name, DType.F32, SHAPE) for name in "xy")
    total = build.add(build.mul(x, 2.0), y)
    graph = Graph(
        "small", (x, y), {"total": total, "most": build.apply("reduce_max", total, axis=-1)}
    )
    made = executable(lower(Model(graph, {}), backend.target(Request())), backend)
    yield made
    made.executable.close()


def of(x: NDArray[Any], y: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {"total": 2 * x + y, "most": (2 * x + y).max(axis=-1)}


def drawn(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


@pytest.mark.parametrize("kind", [LikeCupy, LikeJax, LikeTorch])
def test_arrays_of_other_libraries(
    model: Compiled, counts: Counts, kind: type[OnDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = drawn(1), drawn(2)
    with placed(kind, monkeypatch, x, y) as given:
        found = model(*given)
        assert isinstance(found["total"], DeviceArray) and found["total"].dtype == np.float32
        for name, want in of(x, y).items():
            assert np.allclose(found[name], want)
        named = model(y=given[1], x=given[0])
        assert np.allclose(named["most"].numpy(), of(x, y)["most"])
        del found, named
    assert counts.calls("cuMemHostAlloc") == 0, "nothing went through the host"


def test_an_output_is_the_next_input(model: Compiled, counts: Counts) -> None:
    x, y = drawn(1), drawn(2)
    first = model(x=x, y=y)  # from the host, to the host
    with_device = LikeCupy(x, gpu())
    on_device = model(with_device, y)["total"]
    second = model(on_device, on_device)["total"]
    assert np.allclose(first["total"], on_device)
    assert np.allclose(model(with_device, y.tolist())["total"], on_device)
    assert np.allclose(second, 3 * first["total"], rtol=1e-5)
    with_device.free()


def test_memory_of_a_dropped_output_is_used_again(model: Compiled, counts: Counts) -> None:
    x = LikeCupy(drawn(1), gpu())
    places = set()
    for _ in range(5):
        found = model(x, x)["total"]
        places.add(found.address)
        del found
    assert len(places) == 1 and counts.calls("cuGraphInstantiateWithFlags") == 1
    for _ in range(6):
        # the one before goes when this is there: two places take turns
        found = model(x, x)["total"]
    assert counts.calls("cuGraphInstantiateWithFlags") == 2
    assert counts.calls("cuGraphExecKernelNodeSetParams_v2") == 0
    kept = [model(x, x)["total"] for _ in range(6)]
    assert len({one.address for one in kept}) == 6
    assert counts.calls("cuGraphInstantiateWithFlags") == VARIANTS
    assert counts.calls("cuGraphExecKernelNodeSetParams_v2") > 0
    assert all(np.array_equal(one, kept[0]) for one in kept)
    del kept, found
    x.free()


def test_what_is_given_out_by_dlpack(model: Compiled, counts: Counts) -> None:
    x = LikeCupy(drawn(1), gpu())
    found = model(x, x)["total"]
    assert found.__dlpack_device__() == (dlpack.CUDA, 0)
    with found._home.gpu.current():
        reader = found._home.gpu.stream()
    told = dlpack.read(capsule := found.__dlpack__(stream=reader))
    assert (told.address, told.shape, told.dtype, told.dense) == (
        found.address,
        SHAPE,
        DType.F32,
        True,
    )
    address = found.address
    del found
    again = model(x, x)["total"]
    assert again.address != address, "the capsule holds it"
    del capsule, again
    gc.collect()
    kept = [model(x, x)["total"] for _ in range(3)]
    assert address in {one.address for one in kept}
    del kept
    with gpu().current():
        gpu().drop_stream(reader)
    x.free()


def test_what_is_given_out_by_the_cuda_array_interface(model: Compiled, counts: Counts) -> None:
    x = LikeCupy(drawn(1), gpu())
    found = model(x, x)["total"]
    told = found.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["data"][0], told["version"]) == (
        SHAPE,
        "<f4",
        found.address,
        3,
    )
    assert told["stream"] == model.executable.stream  # type: ignore[attr-defined]
    del found
    x.free()


def test_run_writes_into_arrays_on_the_device(model: Compiled, counts: Counts) -> None:
    x, y = drawn(1), drawn(2)
    given, total, most = (
        LikeCupy(x, gpu()),
        LikeCupy(np.zeros(SHAPE, np.float32), gpu()),
        np.empty(3, np.float32),
    )
    model.run({"x": given, "y": y}, {"total": total, "most": most})
    assert np.allclose(total.read(), of(x, y)["total"])
    assert np.allclose(most, of(x, y)["most"])
    given.free()
    total.free()


def test_arrays_that_begin_anywhere_are_copied(model: Compiled, counts: Counts) -> None:
    x, y = drawn(1), drawn(2)
    given, total = (LikeCupy(np.zeros(16, np.float32), gpu()) for _ in range(2))
    with gpu().current():
        gpu().upload(given.address + 4, x.ctypes.data, x.nbytes, given.stream)
    for one in (given, total):
        one.address, one.values = one.address + 4, x
    most = LikeCupy(np.zeros(3, np.float32), gpu())
    assert np.allclose(model(given, y)["total"], of(x, y)["total"])
    model.run({"x": given, "y": y}, {"total": total, "most": most})
    assert np.allclose(total.read(), of(x, y)["total"]) and np.allclose(
        most.read(), of(x, y)["most"]
    )
    for one in (given, total):
        one.address -= 4
        one.free()
    most.free()


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (np.zeros(SHAPE, np.float64), "XL6002"),
        (np.zeros((3, 4), np.float32), "XL6003"),
        (np.zeros((5,), np.float32), "XL6003"),
    ],
    ids=["dtype", "extent", "rank"],
)
def test_arrays_that_do_not_fit(
    model: Compiled, counts: Counts, values: NDArray[Any], code: str
) -> None:
    wrong = LikeCupy(values, gpu())
    with pytest.raises(SourceError, match=code):
        model(wrong, wrong)
    wrong.free()


def test_inputs_that_are_missing_or_strange(model: Compiled, counts: Counts) -> None:
    x = LikeCupy(drawn(1), gpu())
    for arrays, named in (((x,), {}), ((x, x, x), {}), ((x,), {"x": x}), ((x,), {"z": x})):
        with pytest.raises(SourceError, match="XL6001"):
            model(*arrays, **named)
    x.free()


def test_a_result_outlives_its_program(backend: CudaBackend, counts: Counts) -> None:
    x = build.param("x", DType.F32, SHAPE)
    made = executable(
        lower(Model(Graph("one", (x,), {"y": build.exp(x)}), {}), backend.target(Request())),
        backend,
    )
    given = LikeCupy(drawn(1), gpu())
    found = made(given)
    made.executable.close()
    assert np.allclose(found, np.exp(drawn(1)))
    with pytest.raises(RuntimeError, match="closed"):
        made(given)
    del found
    given.free()


def test_strides_that_are_dense() -> None:
    assert (
        dlpack.dense((2, 3), None)
        and dlpack.dense((2, 3), (3, 1))
        and dlpack.dense((1, 3), (99, 1))
        and dlpack.dense((0, 3), (1, 7))
    )
    assert not dlpack.dense((2, 3), (1, 2)) and not dlpack.dense((2, 3), (4, 1))


def test_every_dtype_goes_through_a_capsule() -> None:
    memory = ctypes.create_string_buffer(64)
    for dtype in DType:
        found = dlpack.read(dlpack.give(memory, ctypes.addressof(memory), 1, dtype, (2, 3)))
        assert (found.dtype, found.shape, found.device) == (dtype, (2, 3), 1)
    assert not dlpack._given
