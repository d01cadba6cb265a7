"""Products whose warps have different work: what goes wrong without one of their waits, and what
code they become.

The stand-in copies and multiplies as late as it may, so a tile that is read too early or handed
back too early shows.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_harness import Counts, OnStandin
from device_doubles import LikeCupy
from numpy.typing import NDArray
from test_cuda_products import compiles, disassembler, lowered, product

from xlac.driver import executable, lower
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.runtime.compiled import Compiled
from xlac_cuda.backend import CudaBackend
from xlac_cuda.build import compiler, resources
from xlac_cuda.device import tensor_maps
from xlac_cuda.device.driver import driver
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.open import gpu
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Request, Target

# two tiles of seven turns for one block: the ring of five tiles goes round nearly three times
M, N, K = 56, 264, 392

Arrays = Mapping[str, NDArray[Any]]


FAULTS = {
    "tiles that are not waited for": (
        r"barrier_wait\(&full[^;]*;",
        "",
        "read before it is written",
    ),
    "places that are filled before they are free": (
        r"barrier_wait\(&empty[^;]*;",
        "",
        "more arrive at a barrier in shared memory",
    ),
    "places handed back while they are read": (
        r"settle_groups<1>\(\);",
        "settle_groups<2>();",
        "a race in shared memory",
    ),
    "places that are not handed back": (
        r"barrier_done\(&empty\[slot_1\]\);",
        "",
        "for a phase that never ends",
    ),
    "sums that nobody waits for": (r"settle_groups<0>\(\);", "", "a race in shared memory"),
    "more bytes than come": (
        r"barrier_expect\(([^;]*), 40960\);",
        r"barrier_expect(\1, 40976);",
        "for a phase that never ends",
    ),
    "fewer bytes than come": (
        r"barrier_expect\(([^;]*), 40960\);",
        r"barrier_expect(\1, 40944);",
        "for a phase that never ends",
    ),
    "a phase that is not next": (
        r"barrier_wait\(&full([^;]*)\);",
        r"barrier_wait(&full\1 + 1);",
        "more than one ahead",
    ),
    "a barrier that has not begun": (
        r"barrier_begin\(&full\[INT64_C\(1\)\][^;]*;",
        "",
        "has not begun",
    ),
    "a box beside its place": (
        r"copy_box\(&left([^;]*);",
        r"copy_box(8 + &left\1;",
        "not aligned to 128 bytes",
    ),
}
PLANTED = (
    'static const int planted = std::getenv("PLANTED") ? std::atoi(std::getenv("PLANTED")) : 0;\n'
)


class Faulty(OnStandin):
    """Blocks of one group. With a number in PLANTED, that fault is made as well."""

    def target(self, request: Request) -> Target:
        return replace(
            super().target(Request(arch="sm_90a+wgmma")), processors=1, block_threads=256
        )

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        (text,) = sources.values()
        lines = text.splitlines()
        for number, (before, after, _) in enumerate(FAULTS.values(), start=1):
            (at,) = (
                i
                for i, line in enumerate(lines)
                if line.startswith((" ", "if (planted")) and re.search(before, line)
            )
            statement = re.search(before, lines[at])
            assert statement is not None
            lines[at] = (
                f"if (planted == {number}) {{ {statement.expand(after)} }} else "
                f"{lines[at].lstrip()}"
            )
        return super().build({"m.cu": PLANTED + "\n".join(lines)}, folder)


def compiled(watched: bool = True) -> Compiled:
    backend = Faulty(watched)
    return executable(
        lowered(backend.target(Request()), product(M, N, K, DType.F16, "nt")), backend
    )


def drawn(seed: int) -> dict[str, NDArray[np.float16]]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal((rows, K)).astype(np.float16)
        for name, rows in (("a", M), ("b", N))
    }


def right(found: NDArray[Any], given: Arrays) -> bool:
    exact = given["a"].astype(np.float32) @ given["b"].astype(np.float32).T
    return bool(np.abs(found.astype(np.float32) - exact).max() < 2e-3 * np.abs(exact).max())


@pytest.mark.parametrize("seed", ["0", "5"])
@pytest.mark.sampled(4)
@pytest.mark.long
def test_it_runs_in_any_order(counts: Counts, monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("STANDIN_SEED", seed)
    given, model = drawn(0), compiled()
    assert right(model(**given), given)
    model.executable.close()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.sampled(24)
def test_a_planted_fault_is_caught(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PLANTED", str(1 + list(FAULTS).index(name)))
    model = compiled()
    try:
        with pytest.raises(DeviceError):
            model(**drawn(0))
        assert FAULTS[name][2] in counts.fault
    finally:
        counts.revive()
        model.executable.close()


def test_maps_follow_arrays_that_move(counts: Counts) -> None:
    """Arrays of the device lie elsewhere at each call: a map is made once for each place."""
    tensor_maps._encoded.cache_clear()
    model, sets = compiled(watched=False), [drawn(seed) for seed in range(6)]
    placed = [{name: LikeCupy(value, gpu()) for name, value in given.items()} for given in sets]
    for _ in range(2):
        for given, arrays in zip(sets, placed, strict=True):
            assert right(model(**arrays).numpy(), given)
    assert counts.calls("cuTensorMapEncodeTiled") == 12
    assert counts.calls("cuGraphExecKernelNodeSetParams_v2") > 0
    for array in (array for arrays in placed for array in arrays.values()):
        array.free()
    model.executable.close()


@pytest.mark.long
def test_heads_of_open_length(counts: Counts) -> None:
    """Tensor maps of four axes, made anew for each length; three blocks share whatever tiles there
    are.
    """
    rows = symbol("rows", min=0, max=4000, opt=2048)
    a, b = (
        build.param("a", DType.F16, (2, rows, 3, 136)),
        build.param("b", DType.F16, (2, 264, 3, 136)),
    )
    anchor = Node.of(
        Dot(contract_lhs=(3,), contract_rhs=(3,), batch_lhs=(0, 2), batch_rhs=(0, 2)), a, b
    )
    graph, backend = Graph("heads", (a, b), {"y": build.maximum(anchor, 0.0)}), OnStandin()
    target = replace(backend.target(Request(arch="sm_90a+wgmma")), processors=3)
    model = executable(lower(Model(graph, {}, {s.name: s for s in symbols(rows)}), target), backend)
    for length in (0, 1, 130):
        rng = np.random.default_rng(length)
        given = {
            name: rng.standard_normal((2, n, 3, 136)).astype(np.float16)
            for name, n in (("a", length), ("b", 264))
        }
        exact = np.maximum(
            np.einsum("bmhk,bnhk->bhmn", *(value.astype(np.float32) for value in given.values())), 0
        )
        np.testing.assert_allclose(model(**given).astype(np.float32), exact, rtol=0, atol=0.05)
    model.executable.close()


LIMITS = {
    "as it should be": ({}, True),
    "an address of 8 bytes": ({"address": 0x10008}, False),
    "a stride of 24 bytes": ({"stride": 24}, False),
    "no rows": ({"rows": 0}, False),
    "a box of 257 rows": ({"box": 257}, False),
    "a row of 256 bytes": ({"inner": 128}, False),
    "a map beside 64 bytes": ({"beside": 8}, False),
    "another type": ({"type": 99}, False),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_standin_is_strict_about_tensor_maps(counts: Counts, name: str) -> None:
    changed, fine = LIMITS[name]
    at: dict[str, int] = {
        "address": 0x10000,
        "stride": 256,
        "rows": 9,
        "box": 256,
        "inner": 64,
        "beside": 0,
        "type": 6,
        **changed,
    }
    room = (ctypes.c_uint64 * 64)()
    start = -(-ctypes.addressof(room) // 64) * 64 + at["beside"]
    extents, strides = (ctypes.c_uint64 * 2)(128, at["rows"]), (ctypes.c_uint64 * 1)(at["stride"])
    box, apart = (ctypes.c_uint32 * 2)(at["inner"], at["box"]), (ctypes.c_uint32 * 2)(1, 1)
    arrays = [ctypes.addressof(array) for array in (extents, strides, box, apart)]
    code = driver().raw["cuTensorMapEncodeTiled"](
        start, at["type"], 2, at["address"], *arrays, 0, 3, 2, 0
    )
    assert (code == 0) is fine


@compiles
def test_the_code_is_hoppers_own(tmp_path: Path) -> None:
    """No GPU has run this; it compiles to the instructions, without spills."""
    target = CudaBackend().target(Request(arch="sm_90a+wgmma"))
    (text,) = (
        CudaBackend()
        .emit(lowered(target, product(4096, 4096, 4096, DType.BF16)).program, target)
        .values()
    )
    code = compiler.compiled(text)
    (kernel,) = resources.used(code.log).values()
    assert (kernel.local, kernel.stored, kernel.loaded) == (0, 0, 0)
    assert not re.search(r"wgmma.*serializ|setmaxnreg.*ignored", code.log), (
        "ptxas does not take it as it is meant"
    )
    assert code.ptx.count("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 4
    tool = disassembler()
    if tool is None:
        pytest.skip("there is no nvdisasm")
    (tmp_path / "code.cubin").write_bytes(code.cubin)
    listing = subprocess.run(
        [tool, str(tmp_path / "code.cubin")], capture_output=True, text=True, check=True
    ).stdout
    for word in (
        "HGMMA.64x256x16.F32.BF16",
        "UTMALDG.2D",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT",
        "USETMAXREG",
    ):
        assert word in listing
