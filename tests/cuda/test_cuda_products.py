"""Matrix products and attention as CUDA C++: on the stand-in, every access watched, and compiled
without spills.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cuda_harness import ARCH, Counts, OnStandin

from xlac.cli import status
from xlac.codegen.gpu.core import instructions, tma
from xlac.codegen.gpu.reduction import arrival_counter
from xlac.driver import Lowered, executable, lower
from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor.leaf import Param
from xlac_cuda.architectures import described
from xlac_cuda.backend import CudaBackend
from xlac_cuda.build import compiler, nvrtc, resources
from xlac_cuda.emit.instructions import HOPPER, INSTRUCTIONS
from xlac_sdk.dtypes import DType
from xlac_sdk.programs import portable
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request, Target

D = DType
compiles = pytest.mark.skipif(
    nvrtc.installed() is None and shutil.which("nvcc") is None,
    reason="neither NVRTC nor nvcc is installed",
)


def param(name: str, dtype: DType, *shape: int) -> Node:
    return Node.of(Param(name, Type(dtype, shape), "input"))


def product(
    m: int,
    n: int,
    k: int,
    dtype: DType,
    turned: str = "nn",
    out: DType | None = None,
    name: str = "",
) -> Node:
    """A matrix product; `turned` has a t for each operand that lies the other way round."""
    left = param(f"a{name}", dtype, *((k, m) if turned[0] == "t" else (m, k)))
    right = param(f"b{name}", dtype, *((n, k) if turned[1] == "t" else (k, n)))
    op = Dot(
        contract_lhs=(0 if turned[0] == "t" else 1,),
        contract_rhs=(1 if turned[1] == "t" else 0,),
        out_dtype=out,
    )
    return Node.of(op, left, right)


def dequantised(m: int, n: int, k: int) -> Node:
    """A product with 8-bit weights, less the zero point of each column and times its scale."""
    weights, zero = (
        build.cast(param(name, D.I8, *shape), D.BF16)
        for name, shape in (("q", (k, n)), ("zero", (n,)))
    )
    right = build.mul(build.sub(weights, zero), param("scale", D.BF16, n))
    return Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), param("a", D.BF16, m, k), right)


def attention(
    queries: tuple[int, int, int],
    keys: tuple[int, int, int],
    dtype: DType,
    masked: bool = False,
    name: str = "",
    **given: object,
) -> Node:
    """Of batch 1; sizes are heads, time and width."""
    more = (param(f"mask{name}", D.BOOL, 1, 1, 1, keys[1]),) if masked else ()
    operands = (param(f"{n}{name}", dtype, 1, *(queries if n == "q" else keys)) for n in "qkv")
    return build.apply1("attention", *operands, *more, **given)


def lowered(target: Target, *outputs: Node, precision: str = "default") -> Lowered:
    named = {f"y{number}": y for number, y in enumerate(outputs)}
    inputs = tuple(n for n in Graph("products", (), named).nodes() if isinstance(n.op, Param))
    return lower(Model(Graph("products", inputs, named), {}, precision=precision), target)


CASES = {
    "many queries, f32": (lambda: attention((2, 40, 16), (1, 70, 16), D.F32, causal=False), 1e-5),
    "f32": (lambda: product(130, 140, 70, D.F32), 1e-5),
    "bf16 nn": (lambda: product(72, 136, 96, D.BF16), 1e-2),
    "bf16 nt": (lambda: product(72, 136, 96, D.BF16, "nt"), 1e-2),
    "bf16 tn": (lambda: product(72, 136, 96, D.BF16, "tn"), 1e-2),
    "bf16 tt, ragged": (lambda: product(70, 101, 67, D.BF16, "tt"), 1e-2),
    "f16": (lambda: product(72, 136, 96, D.F16), 2e-3),
    "i8": (lambda: product(72, 136, 96, D.I8, out=D.I32), 0.0),
    "tf32": (lambda: product(72, 136, 96, D.F32), 5e-3),
    "long sums": (lambda: build.maximum(product(64, 64, 1024, D.BF16), 0.0), 1e-2),
    "warp groups": (lambda: product(100, 200, 136, D.BF16, "nt"), 1e-2),
    "specialized nt": (lambda: product(300, 500, 520, D.BF16, "nt"), 1e-2),
    "specialized tn": (lambda: product(120, 264, 136, D.BF16, "tn"), 1e-2),
    "dequantised": (lambda: dequantised(72, 136, 96), 1e-2),
    "few rows, dequantised": (lambda: dequantised(3, 200, 304), 1e-2),
    "few rows": (lambda: product(3, 200, 300, D.BF16), 1e-2),
    "few rows, turned": (lambda: product(3, 200, 304, D.F32, "nt"), 1e-5),
    "many queries": (lambda: attention((2, 150, 64), (1, 150, 64), D.BF16, causal=True), 2e-2),
    "a few queries": (lambda: attention((4, 1, 64), (2, 300, 64), D.BF16, masked=True), 2e-2),
}


def agree(case: str, backend: CudaBackend) -> None:
    made, tolerance = CASES[case]
    hopper = case.startswith(("warp groups", "specialized"))
    target = backend.target(Request(arch=ARCH + "+wgmma" if hopper else ""))
    target = replace(target, processors=2) if hopper else target
    if case == "warp groups":
        target = replace(target, instructions=target.instructions - tma.NAMES)
    ready = lowered(target, made(), precision="fast" if case == "tf32" else "default")
    graph, rng = ready.model.graph, np.random.default_rng(0)
    feeds = {}
    for node in graph.inputs:
        assert isinstance(node.op, Param)
        shape, dtype = static(node.shape), node.type.dtype
        drawn = (
            rng.random(shape) < 0.7
            if dtype is D.BOOL
            else rng.integers(-9, 9, shape)
            if dtype.is_integer
            else rng.standard_normal(shape)
        )
        feeds[node.op.name] = np.asarray(drawn).astype(dtype.numpy)
    wanted = interpret(Graph("products", graph.inputs, {"y0": made()}), feeds, {})["y0"].astype(
        np.float64
    )
    found = {"y0": np.empty(wanted.shape, graph.outputs["y0"].type.dtype.numpy)}
    executable(ready, backend).run(feeds, found)
    scale = float(np.abs(wanted).max())
    np.testing.assert_allclose(
        found["y0"].astype(np.float64), wanted, rtol=0, atol=tolerance * scale
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(16)
def test_products(case: str, backend: CudaBackend) -> None:
    agree(case, backend)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(16)
def test_products_whose_every_access_is_watched(
    case: str, counts: Counts, request: pytest.FixtureRequest
) -> None:
    """No race, nothing out of bounds, no shared memory read before it is written."""
    if case not in ("f32", "bf16 nn", "many queries") and not request.config.getoption("--all"):
        pytest.skip("seconds each: --all")
    agree(case, OnStandin(watched=True))


def test_schedules_and_text_have_the_same_instructions() -> None:
    asked = {
        instructions.COPY,
        instructions.COMMIT,
        instructions.WAIT,
        instructions.WARP_BARRIER,
        *instructions.MMA.values(),
        arrival_counter.FENCE,
        arrival_counter.TICKET,
    }
    assert asked == set(INSTRUCTIONS) == described("sm_80").instructions
    assert {
        instructions.FENCE,
        instructions.SETTLE,
        *instructions.GROUPED.values(),
        *tma.NAMES,
    } == set(HOPPER)
    assert CudaBackend().target(Request(arch="sm_90a+wgmma")).instructions == {
        *INSTRUCTIONS,
        *HOPPER,
    }
    with pytest.raises(SourceError, match="wgmma"):
        CudaBackend().target(Request(arch="sm_80+wgmma"))


def test_a_program_with_warp_groups_is_an_artefact(tmp_path: Path) -> None:
    spec = tmp_path / "product.yaml"
    spec.write_text(
        'xlac: 1\nmodel: m\ninputs: {a: "bf16[512,256]", b: "bf16[256,512]"}\ngraph: {y: a @ '
        "b}\noutputs: [y]\n"
    )
    asked = [
        "build",
        str(spec),
        "--target",
        "cuda",
        "--arch",
        "sm_90a+wgmma",
        "--emit",
        "cu",
        "-o",
        str(tmp_path / "out"),
    ]
    assert status(asked) == 0
    program, target = portable.read(tmp_path / "out")
    assert target.instructions >= HOPPER.keys() and isinstance(target.instructions, frozenset)
    assert [kernel.name for kernel in program.kernels]


@compiles
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.long
def test_large_products_spill_no_registers(arch: str) -> None:
    """One file with what matters; its threads leave room for each other."""
    outputs = [
        product(4096, 4096, 4096, D.F32, name="0"),
        product(4096, 4096, 4096, D.BF16, name="1"),
        product(4096, 4096, 4096, D.BF16, "nt", name="2"),
        product(1, 3072, 768, D.BF16, name="3"),
        attention((32, 4096, 128), (8, 4096, 128), D.BF16, causal=True, name="4"),
        attention((32, 1, 128), (8, 4096, 128), D.BF16, name="5"),
        attention((8, 512, 64), (8, 512, 64), D.F32, name="6"),
        attention((8, 512, 128), (8, 512, 128), D.F32, causal=True, name="7"),
        attention((8, 512, 256), (8, 512, 256), D.BF16, causal=True, name="8"),
    ]
    target = described(arch)
    (text,) = CudaBackend().emit(lowered(target, *outputs).program, target).values()
    code = compiler.compiled(text)
    for name, kernel in resources.used(code.log).items():
        assert (kernel.local, kernel.stored, kernel.loaded) == (0, 0, 0), name
    for word in ("mma.sync.aligned.m16n8k16", "ldmatrix.sync", "cp.async.cg"):
        assert word in code.ptx


@compiles
def test_products_of_four_warps_are_hoppers_own(tmp_path: Path) -> None:
    """No GPU has run these; what is known is that they compile to the instruction, one after the
    other, without spills.
    """
    target = CudaBackend().target(Request(arch="sm_90a+wgmma"))
    target = replace(target, instructions=target.instructions - tma.NAMES)
    (text,) = (
        CudaBackend()
        .emit(lowered(target, product(4096, 4096, 4096, D.BF16, "nt")).program, target)
        .values()
    )
    code = compiler.compiled(text)
    (kernel,) = resources.used(code.log).values()
    assert (kernel.local, kernel.stored, kernel.loaded) == (0, 0, 0)
    assert code.ptx.count("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 4
    assert "wgmma" not in code.log.lower().replace("wgmma.", ""), (
        "ptxas says that it serialises them"
    )
    tool = disassembler()
    if tool is not None:
        (tmp_path / "code.cubin").write_bytes(code.cubin)
        listing = subprocess.run(
            [tool, str(tmp_path / "code.cubin")], capture_output=True, text=True, check=True
        ).stdout
        assert listing.count("HGMMA.64x256x16.F32.BF16") == 4


def disassembler() -> str | None:
    """nvdisasm, on the path or from NVIDIA's wheel."""
    wheel = find_spec("nvidia")
    places = (
        [
            Path(folder) / "cu13" / "bin" / "nvdisasm"
            for folder in (wheel.submodule_search_locations or ())
        ]
        if wheel
        else []
    )
    return shutil.which("nvdisasm") or next(
        (str(place) for place in places if place.is_file()), None
    )
