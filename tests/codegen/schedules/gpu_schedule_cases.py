"""Groups whose schedules for a GPU are drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from contraction_harness import conv, group
from kind_schedule_cases import bits, ordered, scattered
from schedule_draws import Drawn, dot, greatest_of_windows, x

from xlac.codegen.gpu.core import tma
from xlac.codegen.gpu.core.instructions import COMMIT, COPY, FENCE, GROUPED, MMA, SETTLE, WAIT
from xlac.codegen.gpu.reduction.arrival_counter import FENCE as ARRIVED
from xlac.codegen.gpu.reduction.arrival_counter import TICKET
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.dynamic import Compact
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.tensor.view import Broadcast
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

GPU = Target("gpu", warp=8, block_threads=32, shared_bytes=48 << 10, access_bytes=16, processors=4)


TICKETS = replace(GPU, instructions=frozenset({ARRIVED, TICKET}))
WARP = replace(GPU, warp=32, block_threads=128)
COPIES = replace(WARP, instructions=frozenset({COPY, COMMIT, WAIT}))
CORES = replace(
    GPU, warp=32, block_threads=128, instructions=frozenset({*MMA.values(), COPY, COMMIT, WAIT})
)


HOPPER = replace(
    CORES,
    block_threads=512,
    shared_bytes=227 << 10,
    instructions=CORES.instructions | {FENCE, SETTLE, *GROUPED.values(), *tma.NAMES},
)


def halves(m: int, n: int, k: int) -> Callable[[], Group]:
    def made() -> Group:
        a, b = x("a", m, k, dtype=DType.BF16), x("b", n, k, dtype=DType.BF16)
        return group(Kind.DOT, Node.of(Dot(contract_lhs=(1,), contract_rhs=(1,)), a, b))

    return made


def tiled(template: str, **more: object) -> Mapping[str, object]:
    return {
        "template": template,
        "groups": 1,
        "stages": 2,
        "split_k": 1,
        "combine": None,
        "epilogue_loop": False,
        **more,
    }


def outer() -> Group:
    """Operands whose rows are steps of the sum."""
    y = Node.of(Dot(contract_lhs=(0,), contract_rhs=(0,)), x("a", 24, 12), x("b", 24, 16))
    return group(Kind.DOT, y)


SINGLY = {"lanes": 1, "along": "depth", "asynchronous": False}
APART = {"pitches": (256, 256)}
ELEMENTS = {"queries": SINGLY, "keys": SINGLY, "values": SINGLY}
ONE_BY_ONE = {"left": SINGLY, "right": SINGLY}
PARTS = {"split_k": 2, "combine": {"lanes": 1, "threads": 32}}


def sums() -> Group:
    """Two shapes, of which one has rows that end inside a vector."""
    y = build.add(x("x", 5, 40), x("w", 5, 40))
    return group(Kind.ELEMENTWISE, y, y, build.exp(x("z", 71)))


def pieces() -> Group:
    """A concatenation, a nest for each piece."""
    joined = Node.of(Concat(axis=0), x("x", 5, 16), x("y", 30, 16), build.exp(x("z", 3, 16)))
    return group(Kind.ELEMENTWISE, joined)


def transposed() -> Group:
    """An operand along the rows of the result, one across them."""
    y = build.add(build.transpose(x("x", 34, 36), (1, 0)), x("w", 36, 34))
    return group(Kind.ELEMENTWISE, y)


def turned_twice() -> Group:
    """Operands along each of the outer axes."""
    first = build.transpose(x("x", 18, 4, 16, dtype=DType.F16), (2, 1, 0))
    return group(
        Kind.ELEMENTWISE,
        build.add(first, build.transpose(x("y", 16, 18, 4, dtype=DType.F16), (0, 2, 1))),
    )


def reduced(value: Node, *axes: int, combine: str = "add") -> Node:
    return Node.of(Reduce(axes, combine), value)


def weights(rows: int, length: int) -> Callable[[], Group]:
    """A softmax that an input scales: powers and inputs are read twice."""

    def made() -> Group:
        value = x("x", rows, length)
        powers = build.exp(build.mul(value, x("w", rows, length)))
        total = Node.of(Broadcast((rows, length), (0,)), reduced(powers, 1))
        return group(Kind.ROWS, build.mul(build.div(powers, total), value))

    return made


def around() -> Group:
    """Axes on both sides of those that are kept."""
    return group(Kind.REDUCE, reduced(x("x", 6, 3, 4, 10), 0, 2, 3))


def upright() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 40, 3, 24), 0))


def greatest() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 70, 5), 0, combine="max"))


def whole(axes: tuple[int, ...], *shape: int) -> Callable[[], Group]:
    return lambda: group(Kind.REDUCE, reduced(x("x", *shape), *axes))


def part(loops: list[list[int]], vector: int, lanes: int, combine: bool) -> Mapping[str, object]:
    kernel = {"width": 4, "threads": 16} if combine else None
    return {
        "template": "gpu_split_reduction", "loops": loops, "vector": vector, "lanes": lanes,
        "width": 4, "threads": 8, "ahead": 2, "length": 24, "combine": kernel,
    }  # fmt: skip


def pooled() -> Group:
    """Windows along rows, whose results are vectors across them."""
    return greatest_of_windows((3, 6, 16), (2, 3, 1), (1, 2, 1))


def channels(kind: str) -> Callable[[], Group]:
    shapes = (1, 3, 5, 12), (3, 3, 1, 12)
    return lambda: group(Kind.CONV, conv(*shapes, pad=1, groups=12, kind=kind))


def replaced() -> Group:
    starts = [x(f"at{n}", dtype=DType.I32) for n in range(2)]
    return group(Kind.UPDATE, Node.of(DynUpdate(), x("table", 9, 24), x("new", 5, 24), *starts))


def counted() -> Group:
    """Updates that may meet in any order, since they are whole numbers."""
    op = replace(ROWS, combine="add")
    given = x("x", 9, 4, dtype=DType.I32), x("i", 7, dtype=DType.I32), x("u", 7, 4, dtype=DType.I32)
    return group(Kind.SCATTER, Node.of(op, *given))


def lines(length: int, combine: str) -> Callable[[], Group]:
    op = Cumulative(axis=1, combine=combine)
    return lambda: group(Kind.CUMULATIVE, Node.of(op, x("x", 3, length)))


def found() -> Group:
    """Positions of true elements, and how many there are."""
    made = Node.of(Compact(bound=90), x("mask", 7, 23, dtype=DType.BOOL))
    picks = [Node(Pick(index=n), (made,), t) for n, t in enumerate(made.results)]
    return group(Kind.CUMULATIVE, made, *picks)


def attention(time: int, length: int, width: int) -> Callable[[], Group]:
    """Two query heads that share a key head; later keys are hidden."""

    def made() -> Group:
        q, k, v = (
            x("q", 1, 2, time, width),
            x("k", 1, 1, length, width),
            x("v", 1, 1, length, width),
        )
        return group(Kind.ATTENTION, build.apply1("attention", q, k, v, causal=True))

    return made


SPLIT_KEYS = {"splits": 3, "few": 1, "part": 1, "combine_threads": 16}
ROWS = Scatter(
    update_window_dims=(1,),
    inserted_window_dims=(0,),
    scatter_dims_to_operand_dims=(0,),
    index_vector_dim=1,
)
LOOPS = {"written_out": False}
NARROW = {"lanes": 2, "width": 4, "threads": 16, "written_out": False}
SINGLE = {"vector": None, "lanes": 1}
CACHED = {"written_out": False, "kept": (3,)}


GPU_CASES: dict[str, Drawn] = {
    "gpu_skinny": Drawn(dot(3, 40, 64), GPU, "skinny_gemm", starts=({"vector": 1},)),
    "gpu_skinny_deep": Drawn(dot(3, 40, 64, turned=True), GPU, "skinny_gemm"),
    "gpu_simt": Drawn(dot(20, 24, 64), GPU, "simt_gemm", starts=(ONE_BY_ONE, APART)),
    "gpu_simt_parts": Drawn(dot(12, 12, 256), replace(GPU, processors=64), "simt_gemm"),
    "gpu_simt_copies": Drawn(outer, COPIES, "simt_gemm"),
    "gpu_cores": Drawn(
        halves(40, 36, 128), CORES, "tensor_core_gemm", runs=False, starts=(ONE_BY_ONE, PARTS)
    ),
    "gpu_cores_few": Drawn(halves(20, 24, 64), CORES, "tensor_core_gemm"),
    "gpu_groups": Drawn(
        halves(64, 256, 256), HOPPER, "wgmma", instead=tiled("wgmma"), runs=False, starts=(PARTS,)
    ),
    "gpu_roles": Drawn(
        halves(256, 256, 256),
        HOPPER,
        "warp_specialized_gemm",
        instead=tiled("warp_specialized_gemm", band=2),
        runs=False,
        starts=(PARTS, {"band": 0}),
    ),
    "gpu_groups_one": Drawn(
        halves(64, 256, 128), HOPPER, "wgmma", instead=tiled("wgmma"), schedules=1
    ),
    "gpu_roles_one": Drawn(
        halves(64, 256, 128),
        HOPPER,
        "warp_specialized_gemm",
        instead=tiled("warp_specialized_gemm", band=0),
        schedules=1,
    ),
    "gpu_sums": Drawn(sums, GPU, "gpu_elementwise", exact=True),
    "gpu_pieces": Drawn(pieces, GPU, "gpu_elementwise", exact=True),
    "gpu_transposed": Drawn(transposed, GPU, "gpu_elementwise", exact=True),
    "gpu_rows": Drawn(weights(5, 40), GPU, "gpu_row_reduction", starts=(LOOPS, CACHED)),
    "gpu_rows_long": Drawn(weights(2, 520), GPU, "gpu_row_reduction"),
    "gpu_around": Drawn(around, GPU, "gpu_row_reduction", starts=(NARROW,)),
    "gpu_columns": Drawn(upright, GPU, "gpu_column_reduction", starts=(LOOPS, SINGLE)),
    "gpu_middle": Drawn(whole((1,), 4, 10, 6), GPU, "gpu_column_reduction", starts=({"lanes": 2},)),
    "gpu_greatest": Drawn(greatest, GPU, "gpu_column_reduction", exact=True),
    "gpu_split_rows": Drawn(
        whole((1, 2), 2, 8, 60),
        GPU,
        "gpu_split_reduction",
        instead=part([[0], [1, 2]], 1, 4, combine=True),
    ),
    "gpu_split_columns": Drawn(
        whole((0,), 300, 8),
        TICKETS,
        "gpu_split_reduction",
        instead=part([[0], [1]], 1, 2, combine=False),
    ),
    "gpu_window": Drawn(pooled, GPU, "gpu_window", exact=True),
    "gpu_channels": Drawn(channels("weight"), GPU, "gpu_depthwise", exact=True),
    "gpu_channels_packed": Drawn(channels("input"), GPU, "gpu_depthwise", exact=True),
    "gpu_update": Drawn(replaced, GPU, "gpu_update", exact=True),
    "gpu_random": Drawn(bits("philox", 3, 3, 30), GPU, "gpu_random", exact=True),
    "gpu_random_planes": Drawn(bits("threefry", 2, 5, 6, 3), GPU, "gpu_random", exact=True),
    "gpu_scatter": Drawn(counted, GPU, "gpu_scatter", exact=True),
    "gpu_scatter_sorted": Drawn(
        lambda: scattered(5, 9, 3), GPU, "gpu_sorted_scatter gpu_merge_sort", exact=True
    ),
    "gpu_lines": Drawn(lines(20, "add"), GPU, "gpu_line_scan"),
    "gpu_stretches": Drawn(lines(150, "add"), GPU, "gpu_block_scan"),
    "gpu_greatest_so_far": Drawn(lines(130, "max"), GPU, "gpu_block_scan", exact=True),
    "gpu_compact": Drawn(found, GPU, "gpu_compact", exact=True),
    "gpu_sort": Drawn(ordered, GPU, "gpu_merge_sort", exact=True, starts=({"tile": 2},)),
    "gpu_flash": Drawn(attention(9, 18, 8), WARP, "flash_attention"),
    "gpu_flash_copies": Drawn(
        attention(9, 18, 8), COPIES, "flash_attention", starts=({"staging": ELEMENTS},)
    ),
    "gpu_decode": Drawn(attention(2, 30, 12), GPU, "split_kv_decode", starts=(SPLIT_KEYS,)),
    "gpu_decode_last": Drawn(
        attention(1, 50, 16), TICKETS, "split_kv_decode", starts=({"splits": 2},)
    ),
    "gpu_turned_twice": Drawn(turned_twice, GPU, "gpu_elementwise", exact=True),
}
