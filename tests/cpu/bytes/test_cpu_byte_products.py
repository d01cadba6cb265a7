"""Products and convolutions of bytes less their zero points, on several processors: equal to the
sums, wherever zero points lie and however long sums are.
"""

from __future__ import annotations

import numpy as np
import pytest
from byte_graph import Array, ByteGraph
from processors import needs_processor

from xlac import driver
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.kernel import Apply, statements
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Request

PROCESSORS = ("", "x86-64", "x86-64-v3", "x86-64-v4")
SIGNS = (np.uint8, np.int8)
DEPTHWISE = (  # channels, taps of a row, stride, padding, dilation
    (32, 3, 1, 1, 1), (70, 3, 2, 1, 1), (16, 2, 1, 0, 1), (6, 4, 1, 2, 1), (40, 5, 1, 2, 1),
    (48, 7, 2, 3, 1), (33, 3, 1, 2, 2), (20, 5, 3, 8, 3), (32, 1, 1, 0, 1),
)  # fmt: skip


class Products(ByteGraph):
    """Products of bytes less their zero points."""

    def bytes(self, dtype: type, shape: tuple[int, ...], extreme: bool = False) -> Array:
        info = np.iinfo(dtype)
        if extreme:
            return np.full(shape, info.min if info.min else info.max, dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def less(self, values: Array, zero: Array | None, weight: bool, wide: DType) -> Node:
        """The bytes less a zero point that broadcasts with them."""
        found = build.cast(self.param(values, weight), wide)
        if zero is None:
            return found
        point = self.param(zero, weight) if zero.ndim else build.constant(zero)
        return build.sub(found, build.cast(point, wide))

    def product(
        self,
        x: Array,
        w: Array,
        x_zero: Array | None = None,
        w_zero: Array | None = None,
        wide: DType = DType.I16,
    ) -> None:
        left, right = self.less(x, x_zero, False, wide), self.less(w, w_zero, True, wide)
        batch = tuple(range(w.ndim - 2))
        op = Dot(batch, batch, (x.ndim - 1,), (w.ndim - 2,), DType.I32)
        a, b = (
            v.astype(np.int64) - (0 if z is None else z.astype(np.int64))
            for v, z in ((x, x_zero), (w, w_zero))
        )
        self.add(Node.of(op, left, right), (a @ b).astype(np.int32))


def check(case: ByteGraph, cpu: str, threads: int = 1, used: bool = True) -> None:
    """On a processor of this name: results are exact, and by words of bytes if these are `used`."""
    program = case.check(find("cpu").target(Request(cpu=cpu, threads=threads)))
    assert bool(words(program)) is used


def words(program: Program) -> list[Apply]:
    """Where kernels multiply bytes, or i16, at once."""
    return [
        one
        for kernel in program.kernels
        for one in walk([e for s in statements(kernel.body) for e in roots(s)])
        if isinstance(one, Apply) and one.primitive in (Primitive.DOT4, Primitive.DOT2)
    ]


def zero(dtype: type, value: int) -> Array:
    return np.asarray(value, dtype)


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(8)
def test_products(cpu: str) -> None:
    needs_processor(cpu)
    case = Products()
    for a in SIGNS:
        for b in SIGNS:
            x, w = case.bytes(a, (7, 24)), case.bytes(b, (24, 35))
            case.product(x, w)
            case.product(x, w, zero(a, 5), zero(b, 9))
            case.product(x, w, zero(a, np.iinfo(a).max), None, DType.I32)
            case.product(x, w, case.bytes(a, (7, 1)), case.bytes(b, (35,)))
            case.product(x, w, None, case.bytes(b, (1, 35)), DType.I32)
            extremes = case.bytes(a, (3, 64), True), case.bytes(b, (64, 17), True)
            case.product(*extremes, zero(a, 0), zero(b, np.iinfo(b).max))
    check(case, cpu)


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(8)
def test_sizes(cpu: str) -> None:
    """Sums that are no whole steps, one row, one column, batches, long sums, threads."""
    needs_processor(cpu)
    case = Products()
    for depth in (1, 2, 3, 5, 8, 31, 130):
        case.product(
            case.bytes(np.uint8, (6, depth)), case.bytes(np.int8, (depth, 9)), zero(np.uint8, 3)
        )
    for rows, columns in ((1, 1), (1, 40), (33, 1), (50, 3), (13, 200)):
        case.product(case.bytes(np.int8, (rows, 16)), case.bytes(np.int8, (16, columns)))
    case.product(
        case.bytes(np.uint8, (2, 5, 12)), case.bytes(np.int8, (2, 12, 20)), zero(np.uint8, 7)
    )
    case.product(case.bytes(np.uint8, (2, 4, 5, 12)), case.bytes(np.int8, (2, 4, 12, 20)))
    long = case.bytes(np.uint8, (3, 1 << 16), True), case.bytes(np.uint8, (1 << 16, 20), True)
    case.product(*long, zero(np.uint8, 1), zero(np.uint8, 128))
    case.product(*long)
    case.product(
        case.bytes(np.uint8, (150, 256)), case.bytes(np.int8, (256, 130)), zero(np.uint8, 99)
    )
    check(case, cpu, threads=2)


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(8)
def test_few_columns(cpu: str) -> None:
    """Columns that fill half a vector or less, with sums of whole pairs of words and not."""
    needs_processor(cpu)
    case = Products()
    for columns in (2, 3, 4, 7, 8):
        for number, depth in enumerate((8, 12, 16, 40, 2048)):
            a, b = SIGNS[number % 2], SIGNS[columns % 2]
            x, w = case.bytes(a, (37, depth)), case.bytes(b, (depth, columns))
            case.product(x, w, zero(a, 5), zero(b, 9))
    extreme = case.bytes(np.uint8, (5, 512), True), case.bytes(np.int8, (512, 8), True)
    case.product(*extreme, zero(np.uint8, 0), zero(np.int8, 127))
    check(case, cpu, threads=2)


@pytest.mark.parametrize(
    ("cpu", "columns", "depth", "lanes"),
    [
        ("cascadelake", 8, 24, 16), ("cascadelake", 8, 12, 8), ("cascadelake", 16, 24, 16),
        ("x86-64-v4", 8, 12, 16), ("x86-64-v4", 8, 6, 8),
    ],
)  # fmt: skip
def test_a_vector_has_two_words_of_few_columns(
    cpu: str, columns: int, depth: int, lanes: int
) -> None:
    op = Dot((), (), (1,), (0,), DType.I32)
    x = Node.of(Param("x", Type(DType.U8, (9, depth)), "input"))
    w = Node.of(Param("w", Type(DType.I8, (depth, columns)), "weight"))
    graph = Graph("g", (x,), {"y": Node.of(op, x, w)})
    weights = {"w": np.zeros((depth, columns), np.int8)}
    target = find("cpu").target(Request(cpu=cpu))
    found = words(driver.lower(Model(graph, weights), target).program)
    assert {one.lanes for one in found} == {lanes}


@pytest.mark.parametrize("size", [False, True])
def test_small_programs_keep_bytes(size: bool) -> None:
    """Without VNNI i16 are multiplied, which take twice the memory: not where size matters."""
    case = Products()
    case.product(case.bytes(np.uint8, (64, 64)), case.bytes(np.int8, (64, 48)), zero(np.uint8, 5))
    target = find("cpu").target(Request(cpu="x86-64-v3", size=size))
    program = driver.lower(case.model(), target).program
    assert (DType.I16 in {slot.dtype for slot in program.slots}) is not size


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(2)
def test_products_of_two_that_run_time_knows(cpu: str) -> None:
    """Either order of the right operand, whole vectors of it and not, signs and zero points."""
    needs_processor(cpu)
    case = Products()
    for number, (batch, rows, depth, columns) in enumerate(
        ((1, 16, 64, 48), (3, 33, 24, 40), (2, 12, 36, 7), (1, 8, 4, 130), (2, 9, 68, 1))
    ):
        a, b = SIGNS[number % 2], SIGNS[number // 2 % 2]
        x, w = case.bytes(a, (batch, rows, depth)), case.bytes(b, (batch, depth, columns))
        turned = np.ascontiguousarray(w.transpose(0, 2, 1))
        for x_zero, w_zero in ((None, None), (zero(a, 7), zero(b, 100)), (None, zero(b, -3 % 128))):
            left = case.less(x, x_zero, False, DType.I16)
            exact = (x.astype(np.int64) - int(x_zero or 0)) @ (
                w.astype(np.int64) - int(w_zero or 0)
            )
            for held, axis in ((w, 1), (turned, 2)):
                op = Dot((0,), (0,), (2,), (axis,), DType.I32)
                case.add(Node.of(op, left, case.less(held, w_zero, False, DType.I16)), exact)
    check(case, cpu, threads=2)


def convolved(x: Array, w: Array, op: Conv) -> Array:
    """The sums of a convolution of channels-last numbers."""
    return np.asarray(op.evaluate(x.astype(np.int32), w.astype(np.int32)))


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(8)
def test_convolutions(cpu: str) -> None:
    needs_processor(cpu)
    case = Products()
    layouts = (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"))
    for number, (channels, out, groups, stride, pad, dilation, gap) in enumerate(
        (
            (8, 20, 1, 1, 1, 1, 1),
            (3, 16, 1, 2, 1, 1, 1),
            (5, 7, 1, 1, 0, 2, 1),
            (16, 16, 2, 1, 1, 1, 1),
            (6, 6, 6, 1, 1, 1, 1),
            (6, 4, 2, 1, 1, 1, 1),
            (12, 33, 1, 1, 2, 1, 1),
            (1, 3, 1, 1, 1, 1, 1),
            (4, 6, 1, 1, 0, 1, 1),
            (4, 8, 1, 2, 0, 1, 1),
            (8, 20, 1, 1, 2, 1, 2),
            (3, 5, 1, 1, 3, 2, 3),
            (16, 8, 2, 1, 1, 1, 2),
            (6, 6, 6, 1, 1, 1, 2),
            (4, 6, 1, 2, 1, 1, 3),
        )
    ):
        a, b, layout = SIGNS[number % 2], SIGNS[number // 2 % 2], layouts[number % 3 == 2]
        x = case.bytes(a, (2, 9, 10, channels))
        taps_of = (3, 2) if channels == 4 else (3, 3)  # of which some make pairs of words
        w = case.bytes(b, (*taps_of, channels // groups, out))
        for x_zero, w_zero in ((None, None), (zero(a, 7), None), (zero(a, 100), zero(b, 3))):
            shapes = {"N": 2, "H": 9, "W": 10, "C": channels}
            kernel = {"H": 3, "W": taps_of[1], "I": channels // groups, "O": out}
            given = x.reshape([shapes[c] for c in "NHWC"]).transpose(
                ["NHWC".index(c) for c in layout[0]]
            )
            taps = w.reshape([kernel[c] for c in "HWIO"]).transpose(
                ["HWIO".index(c) for c in layout[1]]
            )
            left, right = (
                case.less(np.ascontiguousarray(v), z, weight, DType.I16)
                for v, z, weight in ((given, x_zero, False), (taps, w_zero, True))
            )
            pads, more = (pad,) * 2, (groups, 1, DType.I32)
            op = Conv(layout, (stride,) * 2, pads, pads, (gap,) * 2, (dilation,) * 2, *more)
            exact = convolved(
                given.astype(np.int32) - (0 if x_zero is None else int(x_zero)),
                taps.astype(np.int32) - (0 if w_zero is None else int(w_zero)),
                op,
            )
            case.add(Node.of(op, left, right), exact)
    check(case, cpu)


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(6)
def test_depthwise_convolutions(cpu: str) -> None:
    """Rows of few and of many taps, apart and side by side, over the edges and not."""
    needs_processor(cpu)
    case = Products()
    for number, (channels, taps, stride, pad, dilation) in enumerate(DEPTHWISE):
        for extreme in (False, True):
            x = case.bytes(SIGNS[number % 2], (2, 7, 23, channels), extreme)
            w = case.bytes(np.int8, (3, taps, 1, channels), extreme)
            low, along = (1, pad), ((1, 1), (dilation, dilation), channels, 1, DType.I32)
            op = Conv(("NHWC", "HWIO", "NHWC"), (1, stride), low, low, *along)
            left, right = (
                case.less(v, None, kind, DType.I32) for v, kind in ((x, False), (w, True))
            )
            case.add(Node.of(op, left, right), convolved(x, w, op))
    check(case, cpu, used=find("cpu").target(Request(cpu=cpu)).byte_words)


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(8)
def test_transpositions(cpu: str) -> None:
    """In registers where there is a square of vectors, whatever is left beside it."""
    needs_processor(cpu)
    case = Products()
    for dtype in (np.uint8, np.int16, np.float32):
        for rows, columns in ((900, 64), (33, 50), (16, 196), (70, 16), (49, 7)):
            x = case.rng.integers(0, 200, (2, rows, columns)).astype(dtype)
            case.add(build.transpose(case.param(x, False), (0, 2, 1)), x.transpose(0, 2, 1))
    check(case, cpu, threads=2, used=False)
