"""Groups of contractions, elementwise operations and reductions whose CPU schedules are drawn at
random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from contraction_harness import TARGETS, conv, group
from schedule_draws import Drawn, dot, matmul, x

from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.view import Broadcast
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

F32, F16 = DType.F32, DType.F16
AVX512, AVX2, SSE = TARGETS["avx512"], TARGETS["avx2"], TARGETS["sse"]
VECTORIZED = replace(SSE, vectorizes=True)
BYTES, FEW_BYTES = (
    replace(target, primitives=target.primitives | {Primitive.DOT4}) for target in (AVX512, SSE)
)


def chain() -> Group:
    first, row = x("x", 7, 5, 12), x("y", 5, 1)
    wide = Node.of(Broadcast((7, 5, 12), (1, 2)), row)
    return group(Kind.ELEMENTWISE, build.mul(build.add(first, wide), first))


def two_shapes() -> Group:
    y, z = build.exp(x("x", 9, 33)), build.exp(x("z", 70))
    return group(Kind.ELEMENTWISE, y, y, z)


def transposition() -> Group:
    return group(Kind.ELEMENTWISE, build.transpose(x("x", 48, 64), (1, 0)))


def reduced(value: Node, axes: tuple[int, ...], combine: str = "add") -> Node:
    return Node.of(Reduce(axes, combine), value)


def of_weights() -> Group:
    """A gradient for weights [out, in], of operands with their channels last."""
    pixels, cotangents = x("x", 30, 21), x("ct", 30, 32)
    y = Node.of(Dot(contract_lhs=(0,), contract_rhs=(0,)), pixels, cotangents)
    return group(Kind.DOT, y, build.transpose(y, (1, 0)))


def of_taps() -> Group:
    """A gradient for weights of three rows of two taps, strided and padded."""
    pixels = build.transpose(x("x", 1, 9, 8, 5), (3, 1, 2, 0))
    cotangents = build.transpose(x("ct", 1, 4, 5, 18), (1, 2, 0, 3))
    layout, ones = ("NHWC", "HWIO", "NHWC"), (1, 1)
    return group(
        Kind.CONV, Node.of(Conv(layout, ones, (0, 1), (0, 1), ones, (2, 2)), pixels, cotangents)
    )


def softmax() -> Group:
    value = x("x", 5, 3, 70)
    powers = build.exp(value)
    total = Node.of(Broadcast((5, 3, 70), (0, 1)), reduced(powers, (2,)))
    return group(Kind.ROWS, build.div(powers, total))


def two_kept() -> Group:
    """Two values that are dear, and read again when their sum is known."""
    first, second = (build.exp(x(n, 3, 40)) for n in "ab")
    total = Node.of(Broadcast((3, 40), (0,)), reduced(build.add(first, second), (1,)))
    return group(Kind.ROWS, build.mul(build.div(first, total), second))


def long_rows() -> Group:
    """Rows that do not fit the stack: what is kept is in the rows of an output."""
    powers = build.exp(x("x", 2, 9000))
    total = Node.of(Broadcast((2, 9000), (0,)), reduced(powers, (1,)))
    return group(Kind.ROWS, build.div(powers, total))


def columns() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 6, 5, 40), (0,), "max"))


def few_results() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 40, 3, 20), (0,)))


def two_loops() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 16, 3, 50), (0, 2)))


def turned_cube() -> Group:
    return group(Kind.ELEMENTWISE, build.transpose(x("x", 34, 33, 35), (2, 1, 0)))


def turned_both_ways() -> Group:
    """Two operands, each contiguous along another loop than the result."""
    first, second = x("x", 34, 33, 35), x("y", 35, 34, 33)
    turned = build.add(build.transpose(first, (2, 1, 0)), build.transpose(second, (0, 2, 1)))
    return group(Kind.ELEMENTWISE, turned)


def large() -> Group:
    y = x("x", 300, 300)
    return group(Kind.ELEMENTWISE, build.add(y, y))


def half() -> Group:
    b = x("b", 40, 19, dtype=F16, kind="weight")
    y = Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), x("a", 9, 40, dtype=F16), b)
    return group(Kind.DOT, y)


def bytes_dot(m: int, n: int, k: int, kind: str = "weight") -> Callable[[], Group]:
    op = Dot(contract_lhs=(1,), contract_rhs=(0,), out_dtype=DType.I32)
    left, right = x("a", m, k, dtype=DType.U8), x("b", k, n, dtype=DType.I8, kind=kind)
    return lambda: group(Kind.DOT, Node.of(op, left, right))


def bytes_window() -> Group:
    """The same of bytes, each pixel of four of them."""
    op = {"out_dtype": DType.I32}
    return group(Kind.CONV, conv((1, 1, 30, 4), (1, 3, 4, 8), dtype=DType.I8, **op))


def turned_bytes() -> Group:
    made = bytes_dot(20, 24, 12)().outputs[0]
    return group(Kind.DOT, made, build.transpose(made, (1, 0)))


def column() -> Group:
    """A matrix, the other way round, by a vector: swapped, the product of one row by a matrix."""
    a, b = x("a", 12, 30, kind="weight"), x("b", 12, 1, kind="weight")
    return group(Kind.DOT, Node.of(Dot(contract_lhs=(0,), contract_rhs=(0,)), a, b))


def window() -> Group:
    """A convolution whose neighbouring rows read elements of each other's next steps."""
    return group(Kind.CONV, conv((1, 1, 30, 1), (1, 3, 1, 8)))


def transposed_result() -> Group:
    y = build.transpose(matmul(20, 24, 9), (1, 0))
    return group(Kind.DOT, y.inputs[0], y)


def long_epilogue() -> Group:
    y = matmul(10, 20, 7, kind="weight")
    z = y
    for _ in range(13):
        z = build.add(z, y)
    return group(Kind.DOT, y, z)


TALL = {"tile": {"rows": (1, 4), "vectors": 1, "lanes": 4}}
ONE = {"rows": (1, 1), "vectors": 1, "lanes": 1}
SINGLE = {"tile": ONE, "right": "constant", "backward": False}
PIECES = {"blocking": {"axis": "second", "piece": 1, "parts": 1, "chunk": 0}}
ONE_KEPT = {"kept": ({"value": 0, "output": None},)}
SHARED = {"threads": {"loops": 1, "grain": 1}}
STREAMED = {
    "template": "streamed_gemm",
    "tile": {"rows": [1, 7], "vectors": 1, "lanes": 16},
    "runs": 1,
    "row_tiles": 2,
    "panels": 1,
    "unroll": 2,
    "threads": {"loops": 0, "grain": 1},
    "transposed_store": True,
}
STREAMED_TAPS = {
    **STREAMED,
    "tile": {"rows": [1, 2], "vectors": 2, "lanes": 4},
    "runs": 2,
    "row_tiles": 5,
    "panels": 2,
    "transposed_store": False,
}


def split(loops: list[list[int]], vector: int, stretch: int) -> Mapping[str, object]:
    return {
        "template": "split_reduction", "loops": loops, "vector": vector, "lanes": 4, "unroll": [2],
        "join": False, "cut": 0, "stretch": stretch, "threads": {"loops": 1, "grain": 1},
        "combine_lanes": 4,
    }  # fmt: skip


CPU_CASES: dict[str, Drawn] = {
    "chain": Drawn(chain, AVX512, "elementwise", exact=True),
    "chain_sse": Drawn(chain, SSE, "elementwise", exact=True),
    "two_shapes": Drawn(two_shapes, AVX2, "elementwise", exact=True),
    "transposition": Drawn(transposition, AVX2, "elementwise", exact=True),
    "turned_cube": Drawn(turned_cube, AVX2, "elementwise", exact=True),
    "turned_both_ways": Drawn(turned_both_ways, AVX2, "elementwise", exact=True),
    "large": Drawn(large, SSE, "elementwise", exact=True),
    "rows": Drawn(softmax, AVX512, "row_reduction", starts=(SHARED,)),
    "two_kept": Drawn(two_kept, AVX2, "row_reduction", starts=(ONE_KEPT,)),
    "rows_sse": Drawn(softmax, SSE, "row_reduction"),
    "rows_long": Drawn(long_rows, AVX2, "row_reduction"),
    "columns": Drawn(columns, AVX2, "row_reduction", starts=(SHARED,)),
    "few_results": Drawn(
        few_results, AVX512, "split_reduction", instead=split([[0], [1, 2]], 1, 7)
    ),
    "two_loops": Drawn(two_loops, AVX2, "split_reduction", instead=split([[0], [1], [2]], 2, 8)),
    "dot_constant": Drawn(dot(13, 40, 19, kind="weight"), AVX512, "gemm", starts=(SHARED,)),
    "dot_stream": Drawn(dot(1, 40, 19, kind="weight"), AVX2, "gemm"),
    "dot_direct": Drawn(dot(9, 32, 21), AVX2, "gemm"),
    "dot_packed": Drawn(dot(21, 35, 17, turned=True), SSE, "gemm pack", starts=(SHARED, PIECES)),
    "dot_long": Drawn(dot(20, 8, 512, kind="weight"), AVX2.with_facts(l2_bytes=4 << 10), "gemm"),
    "dot_half": Drawn(half, AVX512, "gemm"),
    "dot_bytes": Drawn(bytes_dot(9, 40, 24), BYTES, "bytes_gemm", exact=True),
    "dot_bytes_few": Drawn(bytes_dot(9, 8, 24), BYTES, "bytes_gemm", exact=True),
    "dot_bytes_packed": Drawn(
        bytes_dot(21, 37, 36, "input"), FEW_BYTES, "bytes_gemm", exact=True, starts=(SHARED, PIECES)
    ),
    "dot_bytes_turned": Drawn(turned_bytes, FEW_BYTES, "bytes_gemm", exact=True, starts=(TALL,)),
    "dot_bytes_long": Drawn(
        bytes_dot(20, 8, 2048), FEW_BYTES.with_facts(l2_bytes=4 << 10), "bytes_gemm", exact=True
    ),
    "window_bytes": Drawn(bytes_window, FEW_BYTES, "bytes_gemm", exact=True),
    "window": Drawn(window, SSE, "gemm"),
    "dot_column": Drawn(dot(30, 1, 40), AVX512, "inner_product", starts=(SHARED,)),
    "dot_transposed": Drawn(transposed_result, AVX2, "gemm"),
    "dot_epilogue": Drawn(long_epilogue, AVX2, "gemm"),
    "inner_product": Drawn(dot(3, 7, 70, turned=True), AVX512, "inner_product"),
    "vectorized": Drawn(dot(5, 30, 11, kind="weight"), VECTORIZED, "autovectorized"),
    "vectorized_column": Drawn(
        column, VECTORIZED, "autovectorized", starts=({"width": 1, "right": "constant"},)
    ),
    "streamed": Drawn(of_weights, AVX512, "streamed_gemm", instead=STREAMED, starts=(SHARED,)),
    "streamed_taps": Drawn(of_taps, SSE, "streamed_gemm", instead=STREAMED_TAPS, starts=(SHARED,)),
    "gemm_column": Drawn(column, SSE, "gemm", starts=(SINGLE,)),
}
