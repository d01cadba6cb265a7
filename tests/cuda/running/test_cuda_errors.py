"""What goes wrong on a GPU is told clearly, names what it can, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from cuda_harness import STANDIN, Counts, OnStandin
from device_doubles import LikeCupy

from xlac.diagnostics import catalogue
from xlac.driver import executable, lower, unfixed
from xlac.frontends.loader import load
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops import build
from xlac.runtime.compiled import Compiled
from xlac_cuda.device import driver
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.memory import text_of
from xlac_cuda.device.open import gpu as opened
from xlac_sdk.dims import Sym, Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.source import LimitError, SourceError, UnsupportedError, XlacError
from xlac_sdk.target import Request

SPEC = """xlac: 1
model: two_steps
inputs:
  x: f32[8, 8]
graph:
  squared: x @ x
  y: sum(exp(squared))
outputs: [y]
"""


def loaded(model: Model | None = None) -> Compiled:
    backend = OnStandin()
    return executable(lower(model or simple(), backend.target(Request())), backend)


def simple() -> Model:
    x = build.param("x", DType.F32, (64,))
    return Model(Graph("simple", (x,), {"y": build.exp(x)}), {})


def test_there_is_no_driver(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-that-nobody-has.so.1")
    with pytest.raises(UnsupportedError, match="XL5210"):
        loaded()


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("STANDIN_DEVICES", "0", "XL5211"),
        ("STANDIN_FAIL", "cuInit=46", "XL5211"),
        ("STANDIN_FAIL", "cuInit=34", "XL5211"),
        ("STANDIN_VERSION", "11080", "XL5212"),
        ("STANDIN_FAIL", "cuInit=803", "XL5212"),
        ("STANDIN_FAIL", "cuModuleLoadData=222", "XL5212"),
        ("STANDIN_FAIL", "cuModuleLoadData=209", "XL5213"),
        ("STANDIN_FAIL", "cuModuleLoadData=200", "XL5213"),
        ("STANDIN_FAIL", "cuModuleGetFunction=500", "XL5217"),
    ],
)
def test_a_program_that_cannot_be_loaded(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, code: str
) -> None:
    monkeypatch.setenv(setting, value)
    with pytest.raises(XlacError) as raised:
        loaded()
    (found,) = raised.value.diagnostics
    assert found.code == code and code in catalogue()
    assert counts("pushed") == 0


def test_a_gpu_that_is_not_there(counts: Counts) -> None:
    with pytest.raises(SourceError, match="XL5211"):
        opened(3)


@pytest.mark.parametrize(
    "call",
    [
        "cuMemAlloc_v2:2",
        "cuMemHostAlloc",
        "cuStreamCreate",
        "cuMemcpyHtoDAsync_v2",
        "cuStreamSynchronize",
    ],
)
def test_whatever_fails_while_loading_leaves_nothing(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    weights = np.arange(64, dtype=np.float32)
    x = build.param("x", DType.F32, (64,))
    model = Model(
        Graph("weighty", (x,), {"y": build.mul(x, build.param("w", DType.F32, (64,), "weight"))}),
        {"w": weights},
    )
    loaded(model).executable.close()
    before = counts.held()
    counts.reset()
    monkeypatch.setenv("STANDIN_FAIL", f"{call}=2")
    with pytest.raises(LimitError, match="XL5214"):
        loaded(model)
    assert counts.held() == before


def test_memory_is_counted_before_it_is_asked_for(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = build.param("x", DType.F32, (1 << 20,))
    large = build.param("large", DType.F32, (4, 1 << 20), "weight")
    graph = Graph("heavy", (x,), {"y": build.mul(build.reshape(x, (1, 1 << 20)), large)})
    monkeypatch.setenv("STANDIN_MEMORY", str(8 << 20))
    counts.reset()
    with pytest.raises(LimitError) as raised:
        loaded(Model(graph, {"large": np.ones((4, 1 << 20), np.float32)}))
    (found,) = raised.value.diagnostics
    assert found.code == "XL5214" and "16.0 MiB" in found.message and "weights" in found.message
    assert "f32[4, 1048576] 16.0 MiB" in found.hint
    assert counts.calls("cuMemAlloc_v2") == 0


def test_inputs_and_outputs_of_the_host_need_room_too(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded()
    monkeypatch.setenv("STANDIN_MEMORY", "300")
    with pytest.raises(LimitError, match="inputs and outputs 512 B"):
        model(np.zeros(64, np.float32))
    monkeypatch.delenv("STANDIN_MEMORY")
    assert (model(np.zeros(64, np.float32)) == 1).all(), "it works again when there is room"
    model.executable.close()


def test_results_find_room_or_say_what_they_need(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded()
    given = LikeCupy(np.zeros(64, np.float32), opened())
    kept = [model(given) for _ in range(2)]
    before = counts("bytes")
    monkeypatch.setenv("STANDIN_MEMORY", str(before))
    with pytest.raises(LimitError, match=r"a result, f32\[64\], needs 256 B"):
        model(given)
    del kept[0]
    assert (model(given).numpy() == 1).all(), "what was dropped is used again"
    monkeypatch.delenv("STANDIN_MEMORY")
    del kept
    model.executable.close()
    given.free()


def test_what_waits_makes_room_for_results_of_another_size(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = Symbol("n", min=1, max=4096, opt=64)
    x = build.param("x", DType.F32, (Sym((((n,), 1),)),))
    model = loaded(unfixed(Model(Graph("open", (x,), {"y": build.exp(x)}), {}, dims={"n": n})))
    short, long = (LikeCupy(np.zeros(size, np.float32), opened()) for size in (1024, 4096))
    kept = [model(short) for _ in range(4)]
    monkeypatch.setenv("STANDIN_MEMORY", str(counts("bytes") + 64))
    del kept
    assert (model(long).numpy() == 1).all()
    monkeypatch.delenv("STANDIN_MEMORY")
    model.executable.close()
    for one in (short, long):
        one.free()


class Planted(OnStandin):
    """The last kernel writes far outside."""

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        (text,) = sources.values()
        at = text.index("{", text.rindex("__global__")) + 1
        return STANDIN.library(
            f"{text[:at]}\n*(volatile float *)((char *)y + (1 << 15)) = 1.0f;{text[at:]}"
        )


def planted(tmp_path: Path) -> tuple[Compiled, Path]:
    spec = tmp_path / "two_steps.yaml"
    spec.write_text(SPEC)
    backend = Planted()
    return executable(lower(load(spec), backend.target(Request())), backend), spec


@pytest.mark.parametrize("blocking", [False, True])
def test_a_kernel_that_reaches_outside_is_named(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blocking: bool
) -> None:
    if blocking:
        monkeypatch.setenv("XLAC_CUDA_BLOCKING", "1")
    model, spec = planted(tmp_path)
    for _ in range(2):  # the second call is told what the first was
        with pytest.raises(DeviceError) as raised:
            model(np.zeros((8, 8), np.float32))
        (found,) = raised.value.diagnostics
        assert found.code == "XL5215" and raised.value.is_fault and counts("pushed") == 0
        assert found.span is not None and found.span.file == spec and found.span.line == 7
        assert "reduce_1_kernel" in found.message and "memory that is not its own" in found.message
        assert ("in another process" in found.hint) is not blocking
    counts.revive()
    model.executable.close()


def test_a_fault_that_shows_later_and_elsewhere(counts: Counts, tmp_path: Path) -> None:
    (model, spec), other = planted(tmp_path), loaded()
    other(np.zeros(64, np.float32))
    given = LikeCupy(np.zeros((8, 8), np.float32), opened())
    result = model(given)
    for call in (result.numpy, lambda: model(given), lambda: other(np.zeros(64, np.float32))):
        with pytest.raises(DeviceError, match="reduce_1_kernel") as raised:
            call()
        assert raised.value.diagnostics[0].span.file == spec
    counts.revive()
    del result
    given.free()
    for one in (model, other):
        one.executable.close()


def test_a_fault_that_does_not_come_again(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = loaded()
    model(np.zeros(64, np.float32))
    monkeypatch.setenv("STANDIN_FAIL", "cuGraphLaunch=700")
    for setting in ("1", "0"):
        monkeypatch.setenv("XLAC_CUDA_LOCATE", setting)
        with pytest.raises(DeviceError, match="a kernel reads or writes") as raised:
            model(np.zeros(64, np.float32))
        assert "XLAC_CUDA_BLOCKING=1" in raised.value.diagnostics[0].hint
    counts.revive()
    model.executable.close()


@pytest.mark.parametrize("call", ["cuGraphLaunch", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2"])
@pytest.mark.parametrize("code", [214, 999, 46])
def test_a_gpu_that_is_lost(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    model = loaded()
    model(np.zeros(64, np.float32))
    monkeypatch.setenv("STANDIN_FAIL", f"{call}={code}")
    with pytest.raises(DeviceError) as raised:
        model(np.zeros(64, np.float32))
    assert raised.value.diagnostics[0].code == "XL5216" and counts("pushed") == 0
    monkeypatch.delenv("STANDIN_FAIL")
    with pytest.raises(DeviceError, match="XL5216"):
        model(np.zeros(64, np.float32))
    model.executable.close()


@pytest.mark.parametrize(
    "call", ["cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"]
)
def test_a_graph_that_cannot_be_made(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    model = loaded()
    monkeypatch.setenv("STANDIN_FAIL", f"{call}=2")
    with pytest.raises(LimitError, match="XL5214"):
        model(np.zeros(64, np.float32))
    monkeypatch.delenv("STANDIN_FAIL")
    assert (model(np.zeros(64, np.float32)) == 1).all()
    model.executable.close()


def test_code_for_a_real_gpu_is_told_apart(counts: Counts) -> None:
    elf = bytearray(64)
    elf[:4], elf[18] = b"\x7fELF", 190  # EM_CUDA
    device = opened()
    with device.current(), pytest.raises(UnsupportedError, match="XL5213"):
        device.load(bytes(elf))


def test_importing_the_backend_looks_for_no_driver() -> None:
    text = (
        "import sys, xlac_cuda; assert not {'pycuda', 'xlac_cuda.device.driver', "
        "'xlac_cuda.device.gpu'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


def test_sizes_as_people_say_them() -> None:
    assert [text_of(n) for n in (0, 1023, 1536, 3 << 30)] == ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]
