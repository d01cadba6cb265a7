"""Cases of indices, reductions, images and quantization."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tflite_case import Case, case, const, q, x
from tflite_writer import Tensor


def cases() -> Iterator[Case]:
    """The cases."""
    yield from _indexing()
    yield from _reductions()
    yield from _images()
    yield from _quantizers()


def _indexing() -> Iterator[Case]:
    """Long because it is a list of cases."""
    for axis in (0, 1, -1):
        yield case(
            f"GATHER_{axis}",
            "GATHER",
            x(4, 5, 6),
            const([[1, 3], [0, 2]]),
            table="GatherOptions",
            axis=axis,
            batch_dims=0,
        )
    yield case(
        "GATHER_batch",
        "GATHER",
        x(2, 5, 6),
        const([[1, 3], [0, 2]]),
        table="GatherOptions",
        axis=1,
        batch_dims=1,
    )
    yield case("GATHER_ND", "GATHER_ND", x(4, 5, 6), const([[1, 3], [0, 2]]))
    yield case("SCATTER_ND", "SCATTER_ND", const([[1], [3], [1]]), x(3, 4), const([5, 4]))
    yield case(
        "SPARSE_TO_DENSE",
        "SPARSE_TO_DENSE",
        const([[0, 1], [2, 3]]),
        const([3, 4]),
        x(2),
        const(7.0, "f32"),
        table="SparseToDenseOptions",
        validate_indices=False,
    )
    yield case(
        "BUCKETIZE",
        "BUCKETIZE",
        x(3, 9),
        out=Tensor("i32"),
        table="BucketizeOptions",
        boundaries=[-1.5, 0.0, 2.0],
    )
    yield case("TOPK_V2", "TOPK_V2", x(3, 9), const(4), out=[Tensor(), Tensor("i32")])
    for name, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        yield case(name, name, x(3, 9), const(-1), out=Tensor("i32"), table=table, output_type=2)
    yield case(
        "ARG_MAX_i8",
        "ARG_MAX",
        q(3, 9),
        const(1),
        out=Tensor("i64"),
        table="ArgMaxOptions",
        output_type=4,
    )
    for exclusive in (False, True):
        for reverse in (False, True):
            yield case(
                f"CUMSUM_{exclusive}_{reverse}",
                "CUMSUM",
                x(3, 6),
                const(1),
                table="CumsumOptions",
                exclusive=exclusive,
                reverse=reverse,
            )
    yield case("SEGMENT_SUM", "SEGMENT_SUM", x(5, 3), const([0, 0, 2, 2, 3]))
    for name in ("SUM", "PROD", "MAX", "MIN"):
        yield case(
            f"UNSORTED_SEGMENT_{name}",
            f"UNSORTED_SEGMENT_{name}",
            x(5, 3),
            const([0, 3, 2, 2, 0]),
            const(4),
        )


def _reductions() -> Iterator[Case]:
    for name in ("SUM", "MEAN", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        for keep in (False, True):
            yield case(
                f"{name}_{keep}",
                name,
                x(3, 4, 5),
                const([0, -1]),
                table="ReducerOptions",
                keep_dims=keep,
            )
    for name in ("MEAN", "REDUCE_MAX"):
        scale = 0.0517 if name == "REDUCE_MAX" else 0.3137
        yield case(
            f"{name}_i8",
            name,
            q(3, 4, 5, 6, zero=3),
            const([1, 2]),
            out=q(scale=scale, zero=3),
            table="ReducerOptions",
            keep_dims=True,
        )
    yield case(
        "MEAN_alike_i8",
        "MEAN",
        q(3, 4, 5, 6, zero=3),
        const([1, 2]),
        out=q(zero=3),
        table="ReducerOptions",
        keep_dims=False,
    )
    for name in ("REDUCE_ANY", "REDUCE_ALL"):
        yield case(
            name,
            name,
            x(3, 2, dtype="bool"),
            const([1]),
            out=Tensor("bool"),
            table="ReducerOptions",
            keep_dims=False,
        )


def _images() -> Iterator[Case]:
    for name in ("BILINEAR", "NEAREST_NEIGHBOR"):
        table = "ResizeBilinearOptions" if name == "BILINEAR" else "ResizeNearestNeighborOptions"
        for align, half in ((False, False), (True, False), (False, True)):
            for size in ((7, 9), (2, 3)):
                yield case(
                    f"RESIZE_{name}_{align}_{half}_{size[0]}",
                    f"RESIZE_{name}",
                    x(2, 4, 5, 3),
                    const(size),
                    table=table,
                    align_corners=align,
                    half_pixel_centers=half,
                )
    for kind in ("i8", "i16"):
        yield case(
            f"RESIZE_BILINEAR_{kind}",
            "RESIZE_BILINEAR",
            q(1, 4, 5, 3, dtype=kind),
            const((7, 9)),
            out=q(dtype=kind),
            table="ResizeBilinearOptions",
            align_corners=False,
            half_pixel_centers=True,
        )
    boxes = np.random.default_rng(5).uniform(0, 1, (12, 4))
    scores = np.random.default_rng(6).permutation(12) / 12
    common = [
        const(boxes, "f32"),
        const(scores, "f32"),
        const(5),
        const(0.4, "f32"),
        const(0.1, "f32"),
    ]
    yield case(
        "NON_MAX_SUPPRESSION_V4",
        "NON_MAX_SUPPRESSION_V4",
        *common,
        out=[Tensor("i32"), Tensor("i32")],
    )
    for sigma in (0.0, 0.5):
        yield case(
            f"NON_MAX_SUPPRESSION_V5_{sigma}",
            "NON_MAX_SUPPRESSION_V5",
            *common,
            const(sigma, "f32"),
            out=[Tensor("i32"), Tensor(), Tensor("i32")],
        )


def _quantizers() -> Iterator[Case]:
    for dtype in ("i8", "u8", "i16"):
        zero = {"i8": -5, "u8": 120, "i16": 0}[dtype]
        yield case(
            f"QUANTIZE_{dtype}", "QUANTIZE", x(9, 11), out=q(dtype=dtype, scale=0.02, zero=zero)
        )
        yield case(
            f"DEQUANTIZE_{dtype}", "DEQUANTIZE", q(9, 11, dtype=dtype, scale=0.02, zero=zero)
        )
    yield case("QUANTIZE_again", "QUANTIZE", q(9, 11, zero=4), out=q(scale=0.0731, zero=-3))
    yield case("QUANTIZE_i8_u8", "QUANTIZE", q(9, 11, zero=4), out=q(dtype="u8", zero=132))
    yield case("DEQUANTIZE_f16", "DEQUANTIZE", const(np.linspace(-2, 2, 9), "f16"))
    for narrow in (False, True):
        yield case(
            f"FAKE_QUANT_{narrow}",
            "FAKE_QUANT",
            x(9, 11),
            table="FakeQuantOptions",
            min=-1.0,
            max=2.0,
            num_bits=8,
            narrow_range=narrow,
        )
