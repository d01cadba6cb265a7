"""Matrix products and convolutions on a GPU: every layout, size class, type and epilogue gives what
the graph means.

The interpreter is the referee; blocks are of one or a few small warps, so that it is quick and
edges are many.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contraction_harness import agree, compute, group, of_sample, param, program, values

from xlac.codegen.gpu.core.instructions import COMMIT, COPY, FENCE, GROUPED, MMA, SETTLE, WAIT
from xlac.driver import lower
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.kernel import Allocate, Instruction, Kernel, Load, Space, Stmt, children
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Target

D = DType
PLAIN = Target(
    "gpu", warp=8, block_threads=32, shared_bytes=48 << 10, access_bytes=16, processors=4
)
"""Warps of eight threads and no instructions: the tiles that ordinary arithmetic takes."""

CORES = Target(
    "gpu",
    warp=32,
    block_threads=64,
    shared_bytes=48 << 10,
    access_bytes=16,
    processors=4,
    instructions=frozenset({*MMA.values(), COPY, COMMIT, WAIT}),
)
"""Tensor cores and copies that threads do not wait for."""

TURNS = [(False, False), (False, True), (True, False), (True, True)]
SIZES = [
    (5, 1, 131),
    (3, 19, 200),
    (40, 37, 67),
    (16, 32, 16),
    (33, 64, 48),
    (1, 1, 77),
    (7, 5, 0),
    (0, 5, 7),
]


def matmul(
    m: int,
    n: int,
    k: int,
    turned: tuple[bool, bool] = (False, False),
    dtype: DType = D.F32,
    kind: str = "input",
    out: DType | None = None,
) -> Node:
    left = param("a", Type(dtype, (k, m) if turned[0] else (m, k)))
    right = param("b", Type(dtype, (n, k) if turned[1] else (k, n)), kind)
    return Node.of(
        Dot(
            contract_lhs=(0 if turned[0] else 1,),
            contract_rhs=(1 if turned[1] else 0,),
            out_dtype=out,
        ),
        left,
        right,
    )


def kernels(made: Group, target: Target) -> list[Kernel]:
    return list(program(made, target, {}).kernels)


def statements(block: tuple[Stmt, ...]) -> list[Stmt]:
    return [
        s
        for stmt in block
        for s in (stmt, *(inner for part in children(stmt) for inner in statements(part)))
    ]


def named(kernel: Kernel) -> set[str]:
    return {s.name for s in statements(kernel.body) if isinstance(s, Instruction)}


# ---- ordinary arithmetic -----------------------------------------------------------------------


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.sampled(4)
def test_sizes_and_layouts(turned: tuple[bool, bool]) -> None:
    for m, n, k in SIZES:
        agree(group(Kind.DOT, matmul(m, n, k, turned)), PLAIN)


def test_samples() -> None:
    for number, sample in enumerate(Dot.samples()):
        if max(sample.inputs[0].shape, default=0) > 100 or sample.inputs[0].dtype in (
            D.U8,
            D.U16,
            D.U64,
        ):
            continue
        kinds = [("input", "weight"), ("input",), ("weight", "input")][number % 3]
        agree(group(Kind.DOT, of_sample("dot", sample, kinds)), PLAIN)


def test_convolutions(request: pytest.FixtureRequest) -> None:
    """Half of the samples, with --all every one, as on the stand-in for a GPU."""
    for number, sample in enumerate(Conv.samples()):
        if sample.inputs[0].dtype is D.F32 and (
            number % 4 < 2 or request.config.getoption("--all")
        ):
            agree(
                group(
                    Kind.CONV,
                    of_sample("conv", sample, ("input", "weight") if number % 2 else ("input",)),
                ),
                PLAIN,
            )


def test_depthwise_convolutions() -> None:
    """A thread for a few channels; where windows leave x, nothing is read."""
    for kind, channels, step, dtype in (
        ("weight", 8, 1, D.F32),
        ("input", 6, 2, D.F32),
        ("weight", 5, 1, D.BF16),
        ("weight", 16, 2, D.F16),
    ):
        x, kernel = (
            param("x", Type(dtype, (2, 7, 6, channels))),
            param("k", Type(dtype, (channels, 1, 3, 3)), kind),
        )
        conv = Conv(
            ("NHWC", "OIHW", "NHWC"), (step, step), (1, 1), (1, 0), (1, 1), (1, 2), channels
        )
        anchor = Node.of(conv, x, kernel)
        made = group(Kind.CONV, anchor, build.maximum(anchor, 0.0))
        agree(made, PLAIN)
        weights = {"k": values(made)["k"]} if kind == "weight" else {}
        assert all(
            k.parallel is None
            for k in program(made, PLAIN, weights).kernels
            if not k.name.endswith("_pack")
        )


NHWC, NCHW = ("NHWC", "OIHW", "NHWC"), ("NCHW", "OIHW", "NCHW")


@pytest.mark.parametrize("target", [PLAIN, CORES], ids=["plain", "cores"])
@pytest.mark.parametrize(
    ("layout", "steps", "low", "high", "spread", "groups"),
    [
        (NHWC, (1, 1), (1, 1), (1, 1), (1, 1), 1), (NHWC, (2, 1), (1, 2), (0, 1), (1, 2), 1), (NCHW, (1, 2), (2, 0), (1, 1), (2, 1), 1),
        (NHWC, (1, 1), (1, 1), (1, 1), (1, 1), 2), (NHWC, (1, 1), (-1, 1), (1, -1), (1, 1), 1),
    ],
)  # fmt: skip
@pytest.mark.sampled(2)
def test_windows_that_leave_x_read_zeros_where_they_do(
    target: Target,
    layout: tuple[str, str, str],
    steps: tuple[int, int],
    low: tuple[int, int],
    high: tuple[int, int],
    spread: tuple[int, int],
    groups: int,
) -> None:
    """Without a copy of x and its padding, in one launch."""
    dtype, channels = (D.F32, 6) if target is PLAIN else (D.BF16, 16)
    shape = (1, 5, 6, channels * groups) if layout is NHWC else (1, channels * groups, 5, 6)
    x, kernel = (
        param("x", Type(dtype, shape)),
        param("k", Type(dtype, (9 * groups, channels, 3, 2)), "weight"),
    )
    anchor = Node.of(Conv(layout, steps, low, high, (1, 1), spread, groups), x, kernel)
    made = group(Kind.CONV, anchor, build.maximum(anchor, 0.0))
    agree(made, target)
    assert not any(
        "_pad" in k.name for k in program(made, target, {"k": values(made)["k"]}).kernels
    )


def test_threads_read_vectors_where_memory_allows_it() -> None:
    """Sixteen bytes of each operand at once when every row begins at a multiple of them; else one
    element.
    """
    for k, most in ((64, 4), (66, 2), (67, 1)):
        (kernel,) = kernels(group(Kind.DOT, matmul(64, 67, k, (False, True))), PLAIN)
        lanes = {e.lanes for e in loads(kernel)}
        assert max(lanes) == most, (k, lanes)


def loads(kernel: Kernel) -> list[Load]:
    found = [e for s in statements(kernel.body) for e in walk(roots(s)) if isinstance(e, Load)]
    return [e for e in found if e.buffer.space is Space.GLOBAL]


@pytest.mark.parametrize("target", [PLAIN, CORES], ids=["plain", "cores"])
@pytest.mark.sampled(2)
def test_epilogues(target: Target) -> None:
    dtype = D.F32 if target is PLAIN else D.BF16
    for m, n, k in ((17, 24, 40), (16, 21, 32)):
        anchor = matmul(m, n, k, dtype=dtype)
        biased = build.add(anchor, param("bias", Type(dtype, (n,))))
        agree(group(Kind.DOT, anchor, build.maximum(biased, 0.0)), target)
        agree(
            group(
                Kind.DOT,
                anchor,
                build.add(
                    build.apply1("tanh", build.mul(biased, biased)),
                    param("skip", Type(dtype, (m, n))),
                ),
            ),
            target,
        )
        agree(group(Kind.DOT, anchor, build.transpose(biased, (1, 0)), biased), target)


def test_open_sizes() -> None:
    rows = symbol("rows", min=1, max=70, opt=40)
    for shape in ((rows, 24), (3, rows, 24), (24, rows)):
        left, right = param("a", Type(D.F32, shape)), param("b", Type(D.F32, (24, 20)))
        axis = shape.index(24)
        anchor = Node.of(Dot(contract_lhs=(axis,), contract_rhs=(0,)), left, right)
        graph = Graph("open", (left, right), {"y": build.maximum(anchor, 0.0)})
        program = lower(Model(graph, {}, {s.name: s for s in symbols(rows)}), PLAIN).program
        verify_program(program)
        for many in (1, 16, 37, 70):
            rng = np.random.default_rng(many)
            given = {
                "a": rng.normal(size=[many if n is rows else n for n in shape]),
                "b": rng.normal(size=(24, 20)),
            }
            feeds = {name: x.astype(np.float32) for name, x in given.items()}
            wanted = np.maximum(np.tensordot(given["a"], given["b"], ((axis,), (0,))), 0)
            got = np.empty(wanted.shape, np.float32)
            Interpreter(program).run(feeds, {"y": got})
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_special_values_pass_through() -> None:
    made = group(Kind.DOT, matmul(9, 21, 33))
    given = values(made)
    given["a"][2, 3], given["a"][5, 5], given["b"][7, 1] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            compute(made, PLAIN, given)[0], given["a"] @ given["b"], rtol=1e-5, atol=1e-5
        )


# ---- few rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [PLAIN, CORES], ids=["eight", "warps"])
@pytest.mark.parametrize("dtype", [D.F32, D.BF16, D.F64, D.I8])
@pytest.mark.sampled(2)
def test_few_rows(dtype: DType, target: Target, request: pytest.FixtureRequest) -> None:
    """Each size in half of the layouts, with --all in every one."""
    sizes = (
        (1, 64, 96),
        (1, 37, 67),
        (3, 40, 32),
        (70, 1, 130),
        (64, 2, 64),
        (8, 24, 16),
        (6, 5, 4),
    )
    for number, turned in enumerate(TURNS):
        for m, n, k in sizes if request.config.getoption("--all") else sizes[number % 2 :: 2]:
            agree(group(Kind.DOT, matmul(m, n, k, turned, dtype)), target)


def test_few_rows_read_the_large_operand_once_in_sixteen_bytes() -> None:
    for turned in ((False, False), (False, True)):
        (kernel,) = kernels(group(Kind.DOT, matmul(1, 256, 128, turned, D.BF16)), CORES)
        (large,) = (b for b in kernel.parameters if b.size == 256 * 128)
        assert {e.lanes for e in loads(kernel) if e.buffer is large} == {8}


# ---- tensor cores ------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.parametrize("dtype", [D.BF16, D.F16, D.I8])
@pytest.mark.sampled(6)
def test_tensor_cores(
    dtype: DType, turned: tuple[bool, bool], request: pytest.FixtureRequest
) -> None:
    """Each type in every layout; bf16 in two of three sizes, with --all in all."""
    sizes = ((16, 32, 16), (17, 50, 48), (24, 20, 160)) if dtype is D.BF16 else ((17, 37, 67),)
    left = (
        sizes[TURNS.index(turned) % 3]
        if len(sizes) == 3 and not request.config.getoption("--all")
        else None
    )
    for m, n, k in (size for size in sizes if size != left):
        out = D.I32 if dtype is D.I8 else None
        made = group(Kind.DOT, matmul(m, n, k, turned, dtype, out=out))
        (kernel,) = kernels(made, CORES)
        assert (MMA[dtype] in named(kernel)) == (k * dtype.nbytes >= 32)
        agree(made, CORES)


def test_tensor_cores_round_to_tf32() -> None:
    made = group(Kind.DOT, matmul(16, 24, 40))
    given = values(made)
    (got,) = compute(made, CORES, given)

    def rounded(x: np.ndarray) -> np.ndarray:
        return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)

    np.testing.assert_allclose(got, rounded(given["a"]) @ rounded(given["b"]), rtol=1e-5, atol=1e-5)
    assert np.abs(got - given["a"] @ given["b"]).max() > 1e-5


def test_f32_stays_f32_without_permission() -> None:
    target = replace(CORES, instructions=CORES.instructions - {MMA[D.F32]})
    agree(group(Kind.DOT, matmul(16, 24, 40)), replace(target, warp=8))
    (kernel,) = kernels(group(Kind.DOT, matmul(16, 24, 40)), target)
    assert not any(name.startswith("matrix.multiply") for name in named(kernel))


def test_whole_pieces_are_copied_without_registers() -> None:
    (kernel,) = kernels(group(Kind.DOT, matmul(64, 64, 64, dtype=D.BF16)), CORES)
    assert {COPY, COMMIT, WAIT} <= named(kernel)
    (kernel,) = kernels(group(Kind.DOT, matmul(64, 61, 67, dtype=D.BF16)), CORES)
    assert not {COPY, COMMIT, WAIT} & named(kernel)


def test_quantised_weights_are_converted_on_the_way() -> None:
    left, right = param("a", Type(D.BF16, (18, 64))), param("b", Type(D.I8, (64, 24)))
    made = group(Kind.DOT, Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), left, right))
    (kernel,) = kernels(made, CORES)
    assert MMA[D.BF16] in named(kernel)
    agree(made, CORES)


def test_batches_and_convolutions_on_tensor_cores() -> None:
    left, right = param("a", Type(D.BF16, (2, 3, 9, 32))), param("b", Type(D.BF16, (2, 3, 32, 16)))
    agree(group(Kind.DOT, Node.of(Dot((0, 1), (0, 1), (3,), (2,)), left, right)), CORES)
    x, kernel = param("x", Type(D.BF16, (1, 6, 5, 16))), param("k", Type(D.BF16, (3, 3, 16, 8)))
    conv = Conv(("NHWC", "HWIO", "NHWC"), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1))
    agree(group(Kind.CONV, Node.of(conv, x, kernel)), CORES)


def test_shared_memory_fits() -> None:
    for dtype, size in ((D.F32, 300), (D.BF16, 300), (D.F64, 300)):
        for target in (PLAIN, CORES, replace(CORES, block_threads=1024, shared_bytes=227 << 10)):
            (kernel,) = kernels(group(Kind.DOT, matmul(size, size, size, dtype=dtype)), target)
            shared = [
                s.buffer
                for s in statements(kernel.body)
                if isinstance(s, Allocate) and s.buffer.space is Space.SHARED
            ]
            assert 0 < sum(b.size * b.dtype.nbytes for b in shared) <= target.shared_bytes


# ---- few blocks --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [D.F32, D.BF16])
@pytest.mark.sampled(2)
def test_blocks_share_long_sums(dtype: DType) -> None:
    """Where a product has fewer blocks than the machine has multiprocessors; a second kernel adds
    and goes on.
    """
    target = replace(PLAIN if dtype is D.F32 else CORES, processors=20)
    for turned, (m, n, k) in zip(
        TURNS[:: 2 if dtype is D.F32 else 3], ((12, 21, 512), (17, 9, 512)), strict=True
    ):
        anchor = matmul(m, n, k, turned, dtype)
        made = group(
            Kind.DOT,
            anchor,
            build.maximum(build.add(anchor, param("bias", Type(dtype, (n,)))), 0.0),
        )
        assert len(kernels(made, target)) == 2
        agree(made, target)
    assert (
        len(
            kernels(
                group(Kind.DOT, matmul(12, 21, 1000, dtype=dtype)), replace(target, processors=1)
            )
        )
        == 1
    )


def test_blocks_share_the_window_of_a_convolution() -> None:
    x, kernel = param("x", Type(D.F32, (1, 4, 4, 64))), param("k", Type(D.F32, (4, 4, 64, 12)))
    made = group(
        Kind.CONV,
        Node.of(Conv(("NHWC", "HWIO", "NHWC"), (1, 1), (1, 1), (2, 2), (1, 1), (1, 1)), x, kernel),
    )
    target = replace(PLAIN, processors=20)
    names = [k.name for k in kernels(made, target)]
    assert any(name.endswith("_parts") for name in names) and not any(
        "_pad" in name for name in names
    )
    agree(made, target)


# ---- four warps together -----------------------------------------------------------------------


def test_four_warps_multiply_together() -> None:
    """Only where the facts list the instruction; the interpreter runs what it means."""
    target = replace(
        CORES,
        block_threads=128,
        shared_bytes=227 << 10,
        processors=1,
        instructions=CORES.instructions | {*GROUPED.values(), SETTLE},
    )
    made = group(Kind.DOT, matmul(50, 200, 136, (False, True), D.BF16))
    (kernel,) = kernels(made, target)
    assert {GROUPED[D.BF16], FENCE, SETTLE} <= named(kernel)
    agree(made, target)
    (kernel,) = kernels(group(Kind.DOT, matmul(50, 200, 136, dtype=D.BF16)), target)
    assert not set(GROUPED.values()) & named(kernel)
