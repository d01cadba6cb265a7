"""Programs that call cuBLASLt, through the real ctypes layer, on a library that stands in for it and computes on the CPU.

Sizes from which a call is worth it are put aside: every dot product that the library can say is one call.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from cuda_harness import ARCH, STANDIN, Counts, OnStandin
from numpy.typing import NDArray

from xlac.compiled import Compiled
from xlac.compiler import executable, lower
from xlac.ir.dims import Symbol, evaluate, symbol, symbols
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac.ops import build
from xlac.ops.leaf import Param
from xlac.passes.specialize import substituted
from xlac_cuda import architectures, claims, cublaslt, products
from xlac_sdk.dtypes import DType
from xlac_sdk.program import Call
from xlac_sdk.source import SourceError, UnsupportedError, XlacError
from xlac_sdk.target import Request, Target

Array = NDArray[Any]
F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
SIGNED = {F32: 1e-5, F16: 2e-3, BF16: 1.6e-2}  # bounds on results of order 1: one rounding to the type


class Library:
    """What the stand-in was asked for."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(STANDIN.cublaslt))
        self._library.standin_cublaslt_complaint.restype = ctypes.c_char_p
        self._library.standin_cublaslt_count.restype = ctypes.c_long

    def __call__(self, what: str) -> int:
        return int(self._library.standin_cublaslt_count(what.encode()))

    @property
    def complaint(self) -> str:
        return bytes(self._library.standin_cublaslt_complaint()).decode()


@pytest.fixture
def library(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """The stand-in as this machine's cuBLASLt; afterwards nothing that it gave may be held."""
    monkeypatch.setattr(cublaslt, "_files", lambda: iter([STANDIN.cublaslt]))
    monkeypatch.setattr(products, "_known", {})
    cublaslt.found.cache_clear()
    found = Library()
    yield found
    cublaslt.found.cache_clear()
    assert found("held") == 0


def target() -> Target:
    """An H100's, for which every product is large."""
    made = architectures.target(Request(arch=f"{ARCH}+cublaslt"))
    return replace(made, products=frozenset(replace(known, least=1, flops=1, workspace=4096) for known in made.products))


class Asked:
    """Outputs compiled for the stand-in; closed when the test is done."""

    def __init__(self, *outputs: Node, precision: str = "default") -> None:
        self.inputs = tuple(n for n in walk(outputs) if isinstance(n.op, Param))
        self.graph = Graph("asked", self.inputs, {f"o{k}": node for k, node in enumerate(outputs)})
        dims: dict[str, Symbol] = {s.name: s for n in self.inputs for size in n.shape for s in symbols(size)}
        self.lowered = lower(Model(self.graph, {}, dims=dims, precision=precision), target())
        self.compiled: Compiled = executable(self.lowered, OnStandin())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.compiled.executable.close()  # type: ignore[attr-defined]

    @property
    def calls(self) -> int:
        return sum(isinstance(step, Call) for step in self.lowered.program.steps)

    def drawn(self, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
        rng = np.random.default_rng(seed)
        return {
            n.op.name: (rng.standard_normal([evaluate(e, sizes) for e in n.shape]) / 2).astype(n.type.dtype.numpy)  # type: ignore[attr-defined]
            for n in self.inputs
        }

    def agrees(self, feeds: Mapping[str, Array] | None = None, **sizes: int) -> None:
        """What the program gives is what the graph means in float64, rounded once."""
        feeds = self.drawn(sizes) if feeds is None else feeds
        wanted = interpret(substituted(self.graph, sizes), feeds, {}, float64=True)
        found = self.compiled(**feeds)
        for (name, node), array in zip(self.graph.outputs.items(), found if isinstance(found, tuple) else (found,), strict=True):
            exact, bound = np.asarray(wanted[name], np.float64), SIGNED[node.type.dtype]
            np.testing.assert_allclose(np.asarray(array, np.float64), exact, rtol=bound, atol=bound)


def x(name: str, *shape: Any, dtype: DType = F32) -> Node:
    return build.param(name, dtype, shape)


def product(left: Node, right: Node) -> Node:
    return build.apply1("matmul", left, right)


def linear(dtype: DType, rows: int, depth: int, columns: int, *, bias: bool = True) -> Node:
    weights = (x("w", columns, depth, dtype=dtype), *([x("b", columns, dtype=dtype)] if bias else []))
    return build.apply1("linear", x("x", rows, depth, dtype=dtype), *weights, units=columns, bias=bias)


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [(16, 32, 8), (7, 13, 5), (2, 9, 3), (33, 2, 17)])
def test_products(dtype: DType, turned: tuple[bool, bool], shape: tuple[int, int, int], library: Library) -> None:
    rows, columns, depth = shape
    left = build.transpose(x("x", depth, rows, dtype=dtype), (1, 0)) if turned[0] else x("x", rows, depth, dtype=dtype)
    right = build.transpose(x("w", columns, depth, dtype=dtype), (1, 0)) if turned[1] else x("w", depth, columns, dtype=dtype)
    with Asked(product(left, right)) as asked:
        assert asked.calls == 1
        asked.agrees()


def relu(node: Node) -> Node:
    return build.apply1("relu", node)


def gelu(node: Node) -> Node:
    return build.apply1("gelu", node, approximate="tanh")


EPILOGUES: dict[str, Callable[[DType], Node]] = {
    "bias": lambda dtype: linear(dtype, 6, 10, 12),
    "relu": lambda dtype: relu(linear(dtype, 6, 10, 12, bias=False)),
    "gelu": lambda dtype: gelu(linear(dtype, 6, 10, 12, bias=False)),
    "bias, relu": lambda dtype: relu(linear(dtype, 6, 10, 12)),
    "bias, gelu": lambda dtype: gelu(linear(dtype, 6, 10, 12)),
    "residual": lambda dtype: build.add(linear(dtype, 6, 10, 12, bias=False), x("c", 6, 12, dtype=dtype)),
    "bias, residual, relu": lambda dtype: relu(build.add(linear(dtype, 6, 10, 12), x("c", 6, 12, dtype=dtype))),
    "scale": lambda dtype: build.mul(linear(dtype, 6, 10, 12, bias=False), 0.3),
    "batch": lambda dtype: product(x("x", 3, 6, 10, dtype=dtype), x("w", 3, 10, 12, dtype=dtype)),
    "batch, one right": lambda dtype: product(x("x", 3, 6, 10, dtype=dtype), x("w", 10, 12, dtype=dtype)),
    "batch, residual": lambda dtype: build.add(
        product(x("x", 3, 6, 10, dtype=dtype), x("w", 3, 10, 12, dtype=dtype)), x("c", 3, 6, 12, dtype=dtype)
    ),
    "heads": lambda dtype: product(
        build.transpose(x("q", 9, 4, 8, dtype=dtype), (1, 0, 2)), build.transpose(x("k", 7, 4, 8, dtype=dtype), (1, 2, 0))
    ),
    "turned result": lambda dtype: build.transpose(linear(dtype, 6, 10, 12, bias=False), (1, 0)),
}


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("what", EPILOGUES)
def test_epilogues(what: str, dtype: DType, library: Library) -> None:
    with Asked(EPILOGUES[what](dtype), precision="fast") as asked:
        assert asked.calls == 1, [asked.lowered.schedules(g).note for g in asked.lowered.partition.groups]
        if dtype is F32:  # tf32 has 10 bits of fraction
            feeds = {name: np.round(array * 64) / 64 for name, array in asked.drawn({}).items()}
            asked.agrees(feeds)
        else:
            asked.agrees()


def test_not_a_number_and_infinity(library: Library) -> None:
    feeds = {"x": np.ones((4, 3), np.float32), "w": np.ones((5, 3), np.float32), "b": np.zeros(5, np.float32)}
    feeds["x"][0, 0], feeds["x"][1, 1], feeds["b"][2], feeds["b"][3] = np.nan, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = feeds["x"] @ feeds["w"].T + feeds["b"]
    with Asked(linear(F32, 4, 3, 5)) as asked:
        np.testing.assert_array_equal(asked.compiled(**feeds), wanted)


def test_f32_is_rounded_to_tf32_only_where_the_model_lets_it(library: Library) -> None:
    feeds = {"x": np.full((2, 4), 1 + 2**-12, np.float32), "w": np.eye(4, dtype=np.float32)}
    for precision, wanted in (("default", 1 + 2**-12), ("fast", 1.0)):
        with Asked(linear(F32, 2, 4, 4, bias=False), precision=precision) as asked:
            np.testing.assert_array_equal(asked.compiled(**feeds), np.full((2, 4), wanted, np.float32))


def test_open_sizes(library: Library) -> None:
    rows = symbol("rows", 0, 40, 16)
    node = build.apply1("linear", x("x", rows, 9), x("w", 6, 9), x("b", 6), units=6, bias=True)
    with Asked(node) as asked:
        assert asked.calls == 1
        for size in (16, 1, 0, 40, 16):
            asked.agrees(rows=size)


def test_chains_share_memory(library: Library) -> None:
    """The workspace is overwritten by every call: nothing that lives has its place."""
    value = linear(F32, 8, 16, 16)
    for layer in range(4):
        parameters = x(f"w{layer}", 16, 16), x(f"b{layer}", 16)
        after = build.apply1("linear", value, *parameters, units=16, bias=True)
        value = build.add(product(build.apply1("softmax", after), x(f"v{layer}", 16, 16)), value)
    with Asked(value) as asked:
        assert asked.calls >= 8
        for _ in range(3):
            asked.agrees()


def test_an_algorithm_is_searched_once_for_a_product(library: Library) -> None:
    before = library("searches")
    for _ in range(2):
        with Asked(linear(F32, 8, 16, 24)) as asked:
            for seed in range(3):
                asked.agrees(asked.drawn({}, seed))
    assert library("searches") == before + 1


def test_calls_are_recorded_in_the_graph_of_the_program(library: Library, counts: Counts) -> None:
    with Asked(build.apply1("softmax", linear(F32, 8, 16, 24))) as asked:
        asked.agrees()
        recorded, launched = library("products"), counts.calls("cuGraphLaunch")
        asked.agrees()
        assert library("products") == recorded and counts.calls("cuGraphLaunch") == launched + 1


def test_one_by_one(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CUDA_BLOCKING", "1")
    with Asked(build.apply1("softmax", linear(F32, 8, 16, 24))) as asked:
        asked.agrees()


# ---- where the library is not what it should be --------------------------------------------------


def refused(match: str, node: Node | None = None) -> XlacError:
    with pytest.raises(XlacError, match=match) as error, Asked(linear(F32, 8, 16, 24) if node is None else node) as asked:
        asked.agrees()
    return error.value


def test_without_the_library(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublaslt, "_files", lambda: iter([Path("libcublasLt.so.none")]))
    cublaslt.found.cache_clear()
    error = refused("XL5220")
    assert error.exit_code == 3 and "pip install nvidia-cublas" in error.diagnostics[0].hint


def test_a_library_that_is_too_old(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CUBLASLT_VERSION", "111103")
    cublaslt.found.cache_clear()
    assert "cuBLASLt 11.11 is too old" in refused("XL5221").diagnostics[0].message


@pytest.mark.parametrize(("status", "code"), [(1, "XL5221"), (3, "XL5214"), (13, "XL5217")])
def test_a_library_that_does_not_start(status: int, code: str, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CUBLASLT_CREATE", str(status))
    assert "CUBLAS_STATUS_" in refused(code).diagnostics[0].message


def test_a_product_that_the_library_does_not_compute(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CUBLASLT_REFUSES", "1")
    (told,) = refused("XL5222").diagnostics
    assert "f32[8, 16] and f32[16, 24] to f32 with bias" in told.message and "CUBLAS_STATUS_NOT_SUPPORTED" in told.message
    assert "+cublaslt" in told.hint


def test_the_standin_refuses_what_the_library_would(library: Library) -> None:
    """Attributes of the wrong width, pointers less aligned than was said: what the tests above rely on."""
    blas = cublaslt.wanted()
    desc = blas.made("cublasLtMatmulDescCreate", cublaslt.COMPUTE_32F, 0)
    with pytest.raises(XlacError, match="CUBLAS_STATUS_INVALID_VALUE"):
        blas.set(desc, cublaslt.Desc.TRANSA, ctypes.c_int64(1))
    assert library.complaint == "TRANSA does not take 8 bytes"
    blas("cublasLtMatmulDescDestroy", desc)


# ---- where calls are wanted ----------------------------------------------------------------------


def test_ahead_of_time_calls_are_asked_for() -> None:
    assert not architectures.target(Request(arch="sm_90a")).products
    assert {p.workspace for p in architectures.target(Request(arch="sm_90a+cublaslt")).products} == {32 << 20}
    assert {p.workspace for p in architectures.target(Request(arch="sm_80+cublaslt")).products} == {4 << 20}
    with pytest.raises(SourceError, match="has no feature 'cudnn'"):
        architectures.target(Request(arch="sm_90a+cudnn"))


def test_on_this_machines_gpu_the_library_is_called_where_it_is(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "_here", lambda: "sm_90a")
    assert architectures.target(Request()).products == claims.described(90)
    assert not architectures.target(Request(ahead=True)).products
    monkeypatch.setattr(cublaslt, "_files", lambda: iter(()))
    cublaslt.found.cache_clear()
    assert not architectures.target(Request()).products


def test_the_manifest_says_what_an_artefact_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from xlac.cli import status

    spec = tmp_path / "large.yaml"
    spec.write_text(
        "xlac: 1\nmodel: large\ninputs:\n  x: bf16[1024, 1024]\n  w: bf16[1024, 1024]\ngraph:\n  y: matmul(x, w)\noutputs: [y]\n"
    )
    for arch, needs in (("sm_90a", []), ("sm_90a+cublaslt", ["cublasLt"])):
        folder = tmp_path / arch
        assert status(["build", str(spec), "--target", "cuda", "--arch", arch, "--emit", "cu", "-o", str(folder)]) == 0, capsys.readouterr()
        told = json.loads((folder / "manifest.json").read_text())
        assert told["needs"] == needs
        assert told["memory"]["arena"] == (32 << 20 if needs else 0)


def test_no_gpu_is_asked_for_where_calls_are_compiled() -> None:
    with pytest.raises(UnsupportedError, match="XL5203"):
        architectures.target(Request())
