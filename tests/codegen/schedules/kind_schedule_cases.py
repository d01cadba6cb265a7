"""Groups of a CPU whose schedules are drawn: kinds that are neither elementwise, reductions nor
contractions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from contraction_harness import TARGETS, conv, group
from matrix_schedule_cases import MATRIX_CASES
from schedule_draws import Drawn, greatest_of_windows, x
from winograd_schedule_cases import WINOGRAD_CASES

from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.nn.attention_derivatives import AttentionGradient
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.window_choice import SelectAndScatter
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.leaf import RngBits
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.tensor.view import Slice
from xlac_sdk.dtypes import DType

AVX512, AVX2, SSE = TARGETS["avx512"], TARGETS["avx2"], TARGETS["sse"]
SHARED = {"threads": {"loops": 1, "grain": 1}}
CUT = {"piece": 16, "threads": {"loops": 1, "grain": 1}}
PLACES = {"places": CUT}
SWEPT = {"sweep": CUT, "piece": 1, **SHARED}


def ordered() -> Group:
    return group(Kind.SORT, Node.of(Sort(axis=1), x("x", 3, 9, 2)))


def selected() -> Group:
    return group(Kind.SORT, Node.of(Sort(axis=1, kept=3), x("x", 2, 60)))


def replaced() -> Group:
    """A slice of three rows, computed where it goes."""
    starts = [x(f"at{n}", dtype=DType.I32) for n in range(3)]
    new = build.exp(x("new", 2, 3, 70))
    return group(Kind.UPDATE, Node.of(DynUpdate(), x("table", 4, 5, 90), new, *starts))


def bits(algorithm: str, words: int, *shape: int) -> Callable[[], Group]:
    def made() -> Group:
        drawn = Node.of(RngBits(algorithm, shape, DType.U32), x("state", words, dtype=DType.U64))
        picks = [Node(Pick(index=n), (drawn,), t) for n, t in enumerate(drawn.results)]
        return group(Kind.RANDOM, drawn, *picks)

    return made


def scattered(places: int, updates: int, columns: int, combine: str = "add") -> Group:
    """Rows of updates that go to rows of an operand, some to none."""
    op = Scatter(
        update_window_dims=(1,),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        combine=combine,
    )
    given = x("x", places, columns), x("i", updates, dtype=DType.I32), x("u", updates, columns)
    return group(Kind.SCATTER, Node.of(op, *given))


def sliding() -> Group:
    """Windows that indices move along their rows, so that columns of different updates meet."""
    op = Scatter(update_window_dims=(1,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1)
    given = x("x", 100), x("i", 3, dtype=DType.I32), x("u", 3, 90)
    return group(Kind.SCATTER, Node.of(op, *given))


def placed() -> Group:
    """Updates of which no two meet."""
    op = Scatter(
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        unique=True,
    )
    given = x("x", 9, 4), x("i", 3, dtype=DType.I32), x("u", 3, 4)
    rows = replace(op, update_window_dims=(1,))
    return group(Kind.SCATTER, Node.of(rows, *given))


def running_sums() -> Group:
    return group(Kind.CUMULATIVE, Node.of(Cumulative(axis=1, combine="add"), x("x", 2, 12, 45)))


def pooled() -> Group:
    """Windows that hang over the edges of rows, and are wholly inside of them."""
    return greatest_of_windows((3, 6, 90), (1, 3, 2), (1, 1, 2))


def chosen(last: bool) -> Callable[[], Group]:
    """What windows that hang over the edges send to the largest elements that they see."""

    def made() -> Group:
        image = {
            "window": (1, 1, 3, 3),
            "strides": (1, 1, 2, 2),
            "low": (0, 0, 1, 1),
            "high": (0, 0, 1, 1),
        }
        image["window_dilation"] = (1,) * 4
        if last:
            image = {name: tuple(of[a] for a in (0, 2, 3, 1)) for name, of in image.items()}
        shape, sent = ((2, 5, 6, 37), (2, 3, 3, 37)) if last else ((2, 3, 5, 46), (2, 3, 3, 23))
        return group(
            Kind.SCATTER, Node.of(SelectAndScatter(**image), x("x", *shape), x("ct", *sent))
        )

    return made


def planes() -> Group:
    """A depthwise convolution of maps that lie channel by channel."""
    layout = ("NCHW", "OIHW", "NCHW")
    return group(Kind.CONV, conv((1, 2, 6, 18), (2, 1, 3, 3), pad=1, groups=2, layout=layout))


def channels(kind: str = "weight") -> Group:
    """A depthwise convolution whose channels lie side by side."""
    return group(Kind.CONV, conv((1, 3, 9, 37), (3, 3, 1, 37), pad=1, groups=37, kind=kind))


def byte_channels(taps: int = 3, **given: object) -> Group:
    """The same of bytes, whose taps may be multiplied in words."""
    kernel = (3, taps, 1, 37)
    anchor = conv(
        (1, 3, 9, 37),
        kernel,
        **{"pad": 1, "groups": 37, "dtype": DType.I8, "out_dtype": DType.I32} | given,  # type: ignore[arg-type]
    )
    return group(Kind.CONV, anchor)


def causal() -> Group:
    """Attention of two query heads that share a key head, some keys of which are hidden."""
    q, k, v = x("q", 1, 2, 11, 8), x("k", 1, 1, 37, 8), x("v", 1, 1, 37, 24)
    return group(Kind.ATTENTION, build.apply1("attention", q, k, v, causal=True))


def masked() -> Group:
    mask = x("mask", 7, 40, dtype=DType.BOOL)
    q, k, v = x("q", 2, 1, 7, 4), x("k", 2, 1, 40, 4), x("v", 2, 1, 40, 16)
    return group(Kind.ATTENTION, build.apply1("attention", q, k, v, mask))


def differentiated() -> Group:
    """The derivative of the first."""
    q, k, v = x("q", 1, 2, 11, 8), x("k", 1, 1, 37, 8), x("v", 1, 1, 37, 24)
    y, kept = x("y", 1, 2, 11, 24), [x(name, 1, 2, 11) for name in ("top", "total")]
    op = AttentionGradient(causal=True)
    found = Node.of(op, q, k, v, y, *kept, x("ct", 1, 2, 11, 24))
    return group(Kind.ATTENTION, found, *(pick(found, n) for n in range(3)))


def across_seams() -> Group:
    """Neighbours in a ring, and pairs."""
    value = x("x", 9, 150)
    ring = [
        Node.of(Slice((0, start), (9, stop), (1, 1)), value)
        for start, stop in ((149, 150), (0, 149))
    ]
    near = build.add(
        Node.of(Concat(1), *ring), Node.of(Slice((0, 0), (9, 300), (1, 2)), x("y", 9, 300))
    )
    return group(Kind.ELEMENTWISE, near)


GEMM = {
    "template": "gemm", "swap": False, "tile": {"rows": [1, 2], "vectors": 1, "lanes": 1},
    "right": "constant", "dtype": "f32", "unroll": [4, 2], "uncrowded": True, "hold": "right",
    "blocking": {"axis": "second", "piece": 1, "parts": 1, "chunk": 0}, "prefetch": False,
    "threads": {"loops": 0, "grain": 1}, "transposed_store": False, "epilogue_loop": False,
    "backward": False,
}  # fmt: skip
KIND_CASES: dict[str, Drawn] = {
    "sort": Drawn(
        ordered,
        SSE,
        "merge_sort",
        exact=True,
        instead={"template": "merge_sort", "threads": {"loops": 0, "grain": 1}},
        starts=(SHARED,),
    ),
    "sort_ranked": Drawn(
        ordered, AVX2, "rank_sort", exact=True, starts=(SHARED, {"lanes": 2}), schedules=2
    ),
    "sort_selected": Drawn(
        selected,
        AVX512,
        "selection",
        exact=True,
        instead={"template": "selection", "lanes": 4, "unroll": 2, "groups": 7, **SHARED},
    ),
    "update": Drawn(replaced, AVX2, "update", exact=True, starts=(SHARED,)),
    "random_rows": Drawn(
        bits("philox", 3, 3, 111), AVX2, "random_rows", exact=True, starts=(SHARED,)
    ),
    "random_planes": Drawn(
        bits("threefry", 2, 5, 30, 3), SSE, "random_planes", exact=True, starts=(SHARED,)
    ),
    "scatter": Drawn(
        lambda: scattered(5, 7, 90, "assign"),
        AVX512,
        "ordered_scatter",
        exact=True,
        starts=(SHARED,),
    ),
    "scatter_sliding": Drawn(sliding, AVX512, "ordered_scatter", exact=True),
    "scatter_unique": Drawn(placed, SSE, "ordered_scatter", exact=True),
    "scatter_compensated": Drawn(
        lambda: scattered(6, 30, 7), AVX2, "compensated_scatter", exact=True, starts=(SWEPT,)
    ),
    "scatter_counted": Drawn(
        lambda: scattered(30, 40, 20), AVX2, "counted_scatter", exact=True, starts=(SHARED,)
    ),
    "scatter_sorted_instead": Drawn(
        lambda: scattered(30, 40, 20),
        AVX2,
        "sorted_scatter",
        instead={"template": "sorted_scatter", "places": CUT, "lanes": 4, **SHARED},
    ),
    "scatter_compensated_instead": Drawn(
        lambda: scattered(30, 40, 20),
        AVX2,
        "compensated_scatter",
        instead={"template": "compensated_scatter", "lanes": 8, "sweep_lanes": 4, **SWEPT},
    ),
    "scatter_sorted": Drawn(
        lambda: scattered(700, 20, 20),
        AVX512,
        "sorted_scatter",
        exact=True,
        starts=(SHARED, PLACES),
    ),
    "attention": Drawn(causal, AVX512, "online_softmax pack", starts=(SHARED,)),
    "attention_sse": Drawn(causal, SSE, "online_softmax"),
    "attention_gradient": Drawn(differentiated, AVX2, "attention_gradient pack", starts=(SHARED,)),
    "attention_mask": Drawn(masked, AVX2, "online_softmax"),
    **WINOGRAD_CASES,
    "depthwise_nchw": Drawn(planes, AVX512, "depthwise_nchw", exact=True, starts=(SHARED,)),
    "depthwise_nchw_sse": Drawn(planes, SSE, "depthwise_nchw", exact=True),
    "depthwise_nhwc": Drawn(channels, AVX512, "depthwise_nhwc", exact=True, starts=(SHARED,)),
    "depthwise_nhwc_sse": Drawn(channels, SSE, "depthwise_nhwc", exact=True),
    "depthwise_bytes": Drawn(
        byte_channels, AVX512, "depthwise_nhwc", exact=True, starts=({"words": True}, SHARED)
    ),
    "depthwise_bytes_long": Drawn(
        lambda: byte_channels(5, dilation=2, pad=4),
        SSE,
        "depthwise_nhwc",
        exact=True,
        starts=({"words": True, "pixels": 2, "vectors": 1},),
    ),
    "depthwise_as_gemm": Drawn(planes, AVX2, "gemm", instead=GEMM),
    "depthwise_packed": Drawn(
        lambda: channels("input"), AVX2, "depthwise_nhwc pack", exact=True, starts=(SHARED,)
    ),
    "seams": Drawn(across_seams, AVX512, "elementwise seams", exact=True, starts=(SHARED,)),
    "seams_sse": Drawn(across_seams, SSE, "seams", exact=True),
    "cumulative": Drawn(running_sums, AVX512, "cumulative", exact=True, starts=(SHARED,)),
    "cumulative_sse": Drawn(running_sums, SSE, "cumulative", exact=True),
    **MATRIX_CASES,
    "pooling": Drawn(pooled, AVX512, "window", exact=True, starts=(SHARED,)),
    "choice_last": Drawn(chosen(True), AVX512, "window_choice", exact=True, starts=(SHARED,)),
    "choice_first": Drawn(chosen(False), AVX2, "window_choice", exact=True, starts=(SHARED,)),
    "pooling_sse": Drawn(pooled, SSE, "window", exact=True),
}
