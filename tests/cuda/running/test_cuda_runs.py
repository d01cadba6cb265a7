"""Programs on a GPU: graphs kept by sizes, state, several programs, threads and devices; what a
call asks of the driver.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from cuda_harness import Counts, OnStandin

from xlac.driver import executable, lower, unfixed
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.runtime.compiled import Compiled
from xlac_cuda.backend import CudaBackend
from xlac_cuda.device.open import gpu
from xlac_cuda.run import executable as executables
from xlac_sdk.dims import Sym, Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.source import XlacError
from xlac_sdk.target import Request

F32 = DType.F32


def loaded(model: Model, backend: CudaBackend) -> Compiled:
    return executable(lower(model, backend.target(Request())), backend)


def simple(size: int = 40) -> Model:
    x = build.param("x", F32, (size,))
    return Model(Graph("simple", (x,), {"y": build.add(build.exp(x), 1.0)}), {})


def open_model() -> Model:
    n = Symbol("n", min=1, max=100, opt=16)
    x = build.param("x", F32, (Sym((((n,), 1),)), 3))
    return unfixed(
        Model(Graph("open", (x,), {"y": build.apply("softmax", x, axis=-1)}), {}, dims={"n": n})
    )


def test_a_call_is_one_launch_of_a_graph(backend: CudaBackend, counts: Counts) -> None:
    x = build.param("x", F32, (6, 8))
    deep: Node = x
    for _ in range(4):
        deep = build.apply("softmax", build.apply("transpose", deep, perm=(1, 0)), axis=-1)
    model = loaded(Model(Graph("deep", (x,), {"y": deep}), {}), backend)
    given = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    first = model(given)
    counts.reset()
    assert np.array_equal(model(given), first)
    assert counts.calls("cuGraphLaunch") == 1 and counts("launches") > 1
    asked = (
        "cuLaunchKernel",
        "cuMemAlloc_v2",
        "cuGraphInstantiateWithFlags",
        "cuGraphExecKernelNodeSetParams_v2",
        "cuMemHostAlloc",
    )
    assert not any(counts.calls(name) for name in asked)
    model.executable.close()  # type: ignore[attr-defined]


def test_graphs_are_kept_by_sizes_and_bounded(
    backend: CudaBackend, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executables, "KEPT", 3)
    model = loaded(open_model(), backend)

    def call(size: int) -> None:
        given = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
        powers = np.exp(given)
        assert np.allclose(model(given), powers / powers.sum(axis=-1, keepdims=True), rtol=1e-5)

    counts.reset()
    for size in (1, 16, 100, 16, 1, 100):
        call(size)
    assert counts.calls("cuGraphInstantiateWithFlags") == 3
    before = counts("graphs")
    for size in (5, 6, 7):
        call(size)
    assert counts("graphs") == before, "the oldest made room"
    model.executable.close()  # type: ignore[attr-defined]


def counting() -> Model:
    total = build.param("total", F32, (4,), "state")
    x = build.param("x", F32, (4,))
    grown = build.add(total, x)
    return Model(Graph("counting", (x, total), {"y": grown}), {}, state={"total": "y"})


def test_state_stays_between_calls_until_reset(backend: CudaBackend, counts: Counts) -> None:
    model = loaded(counting(), backend)
    ones = np.ones(4, np.float32)
    assert [float(model(ones)[0]) for _ in range(3)] == [1, 2, 3]
    model.reset()
    assert float(model(ones)[0]) == 1
    model.executable.close()  # type: ignore[attr-defined]


def test_one_by_one_gives_the_same(
    backend: CudaBackend, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(simple(), backend)
    given = np.linspace(-1, 1, 40, dtype=np.float32)
    recorded = model(given)
    model.executable.close()  # type: ignore[attr-defined]
    for alone, most in (("1", 20_000), ("0", 0)):
        monkeypatch.setenv("XLAC_CUDA_BLOCKING", alone)
        monkeypatch.setattr(executables, "MOST_ACTIONS", most)
        model = loaded(simple(), backend)
        counts.reset()
        assert np.array_equal(model(given), recorded)
        assert counts.calls("cuGraphLaunch") == 0 and counts.calls("cuLaunchKernel") >= 1
        model.executable.close()  # type: ignore[attr-defined]


def test_programs_and_threads_beside_each_other(backend: CudaBackend, counts: Counts) -> None:
    models = [loaded(simple(), backend), loaded(open_model(), backend)]
    wrong: list[object] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(10):
            x = rng.standard_normal(40).astype(np.float32)
            if not np.allclose(models[0](x), np.exp(x) + 1, rtol=1e-5):
                wrong.append(seed)
            if not np.allclose(
                models[1](x[: 3 * (1 + seed)].reshape(-1, 3)).sum(axis=-1), 1, rtol=1e-5
            ):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for model in models:
        model.executable.close()  # type: ignore[attr-defined]


def test_a_device_by_its_number(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_DEVICES", "2")
    backend = OnStandin(device=1)
    model = loaded(simple(), backend)
    assert model.executable.gpu is gpu(1) and gpu(0) is not gpu(1)  # type: ignore[attr-defined]
    assert np.allclose(model(np.zeros(40, np.float32)), 2)
    model.executable.close()  # type: ignore[attr-defined]
    with pytest.raises(XlacError, match="XL5211"):
        loaded(simple(), OnStandin(device=2))


@pytest.mark.parametrize("size", [0, 1, (1 << 20) + 17, 6 << 20])
def test_arrays_larger_than_a_piece_go_in_pieces(
    backend: CudaBackend, counts: Counts, size: int
) -> None:
    x = build.param("x", DType.U8, (size,))
    model = loaded(
        Model(
            Graph("bytes", (x,), {"y": build.apply("xor", x, build.constant(np.uint8(255)))}), {}
        ),
        backend,
    )
    given = np.random.default_rng(0).integers(0, 256, size).astype(np.uint8)
    assert np.array_equal(model(given), ~given)
    model.executable.close()  # type: ignore[attr-defined]


def test_what_a_program_needs_is_known(backend: CudaBackend, counts: Counts) -> None:
    model = loaded(simple(), backend)
    memory = model.executable.memory  # type: ignore[attr-defined]
    assert memory.needs["weights"] == 0 and "inputs and outputs" not in memory.needs
    model(np.zeros(40, np.float32))
    assert memory.needs["inputs and outputs"] == 512
    model.executable.close()  # type: ignore[attr-defined]
