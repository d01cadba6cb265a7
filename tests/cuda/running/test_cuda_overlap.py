"""Stages on a GPU beside stages of the processor: copies are in flight while others compute."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_harness import Counts
from graphs import assert_stages_like_numpy

from xlac import driver
from xlac.api import compile
from xlac.placement import arrange, split
from xlac.placement.call_order import CopyStart, StageStart, ValueDone
from xlac_cuda.backend import CudaBackend
from xlac_cuda.run.in_flight import CudaCall
from xlac_sdk.host.registry import find

SPEC = """\
xlac: 1
inputs: {x: "f32[4, 8]", w: "f32[3, 8]"}
graph:
  first: exp(x)
  near: w * 2.0
  second: log(near)
  y: {op: concat, in: [first, second], axis: 0}
outputs: [y]
place: {near: cpu, y: cpu, "*": cuda}
"""


@pytest.fixture(autouse=True)
def cuda(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name cuda means the backend of these tests; stages are divided however small they are."""
    monkeypatch.setattr(driver, "find", lambda name: backend if name == "cuda" else find(name))
    monkeypatch.setattr(split, "WORTH", -1.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "m.yaml"
    made.write_text(SPEC, "utf-8")
    return made


def inputs() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    shapes = {"x": (4, 8), "w": (3, 8)}
    return {n: generator.uniform(1, 2, shape).astype(np.float32) for n, shape in shapes.items()}


def expected(given: dict[str, Any]) -> Any:
    return np.concatenate([np.exp(given["x"]), np.log(given["w"] * 2)])


def test_a_copy_is_in_flight_while_another_stage_computes(
    path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = compile(path)
    assert [stage.target.name for stage in model.stages] == ["cuda", "cpu", "cuda", "cpu"]
    (steps,) = model._code.order.threads
    starts = [step.stage for step in steps if isinstance(step, StageStart)]
    assert starts == [0, 1, 2, 3]
    at = {step: n for n, step in enumerate(steps)}
    (near,) = model.values.stages[1][1].values()
    assert at[CopyStart(near, 2)] == at[StageStart(1)] + 1  # as soon as it exists
    for value in model.values.stages[0][1].values():
        assert at[ValueDone(value)] == at[StageStart(3)] - 2  # where it is read, not before
    given = inputs()
    model(**given)  # what is made once, is
    counts.reset()
    monkeypatch.setenv("STANDIN_TRACE", "1")
    np.testing.assert_allclose(model(**given), expected(given), rtol=1e-5)
    trace = counts.trace
    kernels = [n for n, line in enumerate(trace) if line.startswith("kernel: ")]
    sent = [n for n, line in enumerate(trace) if line.endswith("to the device, 96 bytes")]
    begun = next(n for n in sent if trace[n].startswith("begun"))
    done = trace.index(trace[begun].replace("begun", "done"))
    assert begun < kernels[0] < done < kernels[-1], trace
    assert trace[kernels[0]] != trace[kernels[-1]]
    copies = [line for line in trace if line.startswith("begun")]
    assert len(copies) == 4  # x, near, first, second: each once


def test_what_passes_between_stages_is_in_pinned_memory(path: Path, counts: Counts) -> None:
    before = counts("pinned")
    model: Any = compile(path)
    given = inputs()
    results = [model(**given) for _ in range(3)]
    (own,) = model._code._spare[1]
    gpu = model.stages[0].executable.gpu
    assert {array.__array_interface__["data"][0] for array in own.values()} == gpu.pins.keys()
    assert len(gpu.pins) == 3
    for one in results:
        np.testing.assert_allclose(one, expected(given), rtol=1e-5)
    del model, own
    gc.collect()
    assert not gpu.pins and counts("pinned") == before


def test_values_that_nobody_waits_for_are_not_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the checked order prevents."""
    model, given = compile(path), inputs()
    np.testing.assert_allclose(model(**given), expected(given), rtol=1e-5)
    fresh = compile(path)
    monkeypatch.setattr(CudaCall, "wait", lambda self, name: None)
    assert not np.allclose(fresh(**given), expected(given), rtol=1e-5)


def test_an_input_that_changes_in_flight_shows(path: Path, counts: Counts) -> None:
    """The stand-in reads pinned memory when a copy is made, as a GPU may."""
    model: Any = compile(path)
    executable = model.stages[2].executable
    (name,), (out,) = (slot.name for slot in executable.program.inputs), model.stages[2].outputs
    memory = executable.host_memory(96)
    array = memory[:96].view(np.float32).reshape(3, 8)
    array[...] = 1.0
    result = np.full((3, 8), np.nan, np.float32)
    call = executable.begin()
    call.send(name, array)
    array[...] = np.e
    call.start({out: result})
    call.wait(out)
    call.end()
    np.testing.assert_allclose(result, 1.0, rtol=1e-6)
    del call, array, memory


def test_an_error_in_flight_frees_the_stages(
    path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = compile(path)
    given = inputs()
    model(**given)
    failing = model.stages[1].executable

    def fails(*arrays: object) -> None:
        raise ValueError("near")

    monkeypatch.setattr(failing, "run", fails, raising=False)
    monkeypatch.setattr(failing, "into", None, raising=False)
    with pytest.raises(ValueError, match="near"):
        model(**given)
    monkeypatch.undo()
    np.testing.assert_allclose(model(**given), expected(given), rtol=1e-5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("targets", [("cpu", "cuda"), ("cuda", "c", "reference")])
def test_random_graphs_in_random_stages(
    seed: int, targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a half of the cases each target has a thread of its own, however small stages are."""
    if seed % 2:
        monkeypatch.setattr(arrange, "GAIN", -1.0)
    assert_stages_like_numpy(seed, targets)
