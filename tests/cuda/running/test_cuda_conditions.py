"""Loops and branches that data decides are nodes of the graph where the driver has such, and the
host's elsewhere.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_harness import Counts, OnStandin
from device_doubles import LikeCupy

from xlac.debug.explain.story import tell
from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac.runtime.compiled import Compiled
from xlac_cuda.backend import CudaBackend
from xlac_cuda.device.capture import captured
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.open import gpu
from xlac_cuda.run.graph import LaunchGraph
from xlac_cuda.run.nodes import WHILE, Nodes, Tools
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[3] / "specs"
LOOPS = """xlac: 1
model: loops
inputs: {x: "f32[4]", limit: "f32[]", which: "i32[]"}
graph:
  outer:
    while: total < limit
    carry:
      value: x
      total: {init: 0.0, type: "f32[]"}
      rounds: {init: 0, type: "i32[]"}
    body:
      inner:
        while: steps < rounds
        carry: {part: value, steps: {init: 0, type: "i32[]"}}
        body: {}
        next: {part: part + 1, steps: steps + 1}
      one:
        cond: which
        branches:
          - {outputs: {y: inner.part * 2}}
          - {outputs: {y: inner.part}}
          - {outputs: {y: inner.part - 3}}
    next: {value: one.y, total: total + 1, rounds: rounds + 1}
outputs: {value: outer.value, rounds: outer.rounds}
"""


def loaded(tmp_path: Path, backend: CudaBackend) -> Compiled:
    file = tmp_path / "loops.yaml"
    file.write_text(LOOPS)
    return executable(lower(load(file), backend.target(Request())), backend)


def meant(x: Any, limit: float, which: int) -> tuple[Any, int]:
    rounds = 0
    while rounds < limit:
        x = x + rounds
        x = x * 2 if which == 0 else x if which == 1 else x - 3
        rounds += 1
    return x, rounds


def agree(model: Compiled, seed: int, limit: float, which: int) -> None:
    x = np.random.default_rng(seed).integers(-4, 4, 4).astype(np.float32)
    found, (value, rounds) = (
        model(x=x, limit=np.float32(limit), which=np.int32(which)),
        meant(x, limit, which),
    )
    assert np.array_equal(found["value"], value) and int(found["rounds"]) == rounds


@pytest.mark.parametrize("version", [0, 12080, 12040, 12020])
@pytest.mark.sampled(4)
def test_loops_and_branches_in_each_other(
    backend: CudaBackend,
    counts: Counts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    if version:
        monkeypatch.setenv("STANDIN_VERSION", str(version))
    model = loaded(tmp_path, backend)
    for seed, (limit, which) in enumerate(
        [(0, 0), (1, 1), (5, 0), (3, 2), (3, 7), (3, -1), (4, 1)]
    ):
        counts.reset()
        agree(model, seed, limit, which)
        if version in (0, 12080):
            assert counts.calls("cuGraphLaunch") == 1, "the host decides nothing"
        else:
            assert (limit == 0) or counts.calls("cuGraphLaunch") > 1, (
                "the outer loop has a branch in it"
            )
    decided = {type(part) for parts in model.executable._parts.values() for part in parts}  # type: ignore[attr-defined]
    assert (decided == {LaunchGraph}) is (version in (0, 12080))
    model.executable.close()  # type: ignore[attr-defined]


def test_a_loop_needs_less_than_a_branch(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_VERSION", "12040")
    backend = OnStandin()
    model = executable(lower(load(SPECS / "loop_while.yaml"), backend.target(Request())), backend)
    x = np.linspace(0.5, 9, 64, dtype=np.float32)
    model(x)
    counts.reset()
    assert np.allclose(model(x)["root"], np.sqrt(x), rtol=1e-5)
    assert counts.calls("cuGraphLaunch") == 1 and counts("launches") > 10
    model.executable.close()


@pytest.mark.parametrize(("spec", "since"), [("loop_while", "12.4"), ("branch_cond", "12.8")])
def test_who_decides_is_explained(spec: str, since: str) -> None:
    model, backend = load(SPECS / f"{spec}.yaml"), CudaBackend()
    told = tell(
        lower(model, backend.target(Request(arch="sm_90a"))), model.graph, control=backend.control
    )
    assert f"decided on the GPU, by drivers before CUDA {since} on the host" in told


@pytest.mark.parametrize(
    "call",
    ["cuGraphAddNode_v2=801", "cuGraphConditionalHandleCreate=801", "cuModuleLoadData:2=221"],
)
def test_a_driver_that_refuses(
    counts: Counts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    counts.reset()
    monkeypatch.setenv("STANDIN_FAIL", call)
    model = loaded(tmp_path, OnStandin())
    agree(model, 0, 3, 0)
    agree(model, 1, 0, 0)
    assert counts.calls("cuGraphLaunch") > 2, "the host decides"
    monkeypatch.delenv("STANDIN_FAIL")
    model.executable.close()


def test_arrays_of_the_device_in_loops(counts: Counts, tmp_path: Path) -> None:
    model = loaded(tmp_path, OnStandin())
    rng = np.random.default_rng(0)
    given = [LikeCupy(rng.integers(-4, 4, 4).astype(np.float32), gpu()) for _ in range(6)]
    kept = []
    for x in (*given, *given):
        kept.append(found := model(x=x, limit=np.float32(3), which=np.int32(0)))
        assert (
            np.array_equal(found["value"], meant(x.values, 3, 0)[0]) and int(found["rounds"]) == 3
        )
    del kept, found
    model.executable.close()
    for x in given:
        x.free()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_what_decides_is_assembled(tmp_path: Path, arch: str) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    text = files("xlac_cuda") / "templates" / "conditions.ptx"
    made = tmp_path / "conditions.cubin"
    subprocess.run(
        [nvcc, "-cubin", f"-arch={arch}", str(text), "-o", str(made)],
        check=True,
        capture_output=True,
    )
    assert all(
        name in made.read_bytes()
        for name in (b"decide_loop", b"decide_branch", b"cudaGraphSetConditional")
    )


def test_the_stand_in_takes_only_what_bodies_may_have(counts: Counts) -> None:
    where = gpu()
    driver = where.driver
    host = ctypes.CDLL(driver._library._name).cuLaunchHostFunc
    host.argtypes = [ctypes.c_void_p] * 3
    with where.current():
        stream = where.stream()
        child = captured(
            driver,
            stream,
            lambda: host(stream, ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p), None),
        )
        graph = driver.handle("cuGraphCreate", 0)
        nodes = Nodes(Tools(where, {}, lambda *given: None, stream), ())
        handle = nodes._handle(graph)
        with pytest.raises(DeviceError, match="INVALID_VALUE"):  # a condition of another graph
            nodes._conditional(child, 0, handle, WHILE, 1)
        _, (body,) = nodes._conditional(graph, 0, handle, WHILE, 1)
        with pytest.raises(DeviceError, match="INVALID_VALUE"):  # which has a node already
            nodes._conditional(graph, 0, handle, WHILE, 1)
        driver.handle("cuGraphAddEmptyNode", body, None, 0)
        run = driver.handle("cuGraphInstantiateWithFlags", graph, 0)
        driver("cuGraphLaunch", run, stream)
        with pytest.raises(DeviceError, match="XL5215"):  # which nothing has set
            where.sync(stream)
        counts.revive()
        driver("cuGraphExecDestroy", run)
        driver.handle("cuGraphAddChildGraphNode", body, None, 0, child)
        with pytest.raises(DeviceError, match="NOT_SUPPORTED"):
            driver.handle("cuGraphInstantiateWithFlags", graph, 0)
        for one in (graph, child):
            driver("cuGraphDestroy", one)
        where.drop_stream(stream)
