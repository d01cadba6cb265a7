"""Cases of operators that move elements."""

from __future__ import annotations

from collections.abc import Iterator

from tflite_case import Case, case, const, q, x
from tflite_writer import Tensor


def cases() -> Iterator[Case]:
    """The cases."""
    yield from _shapes()
    yield from _slices()


def _shapes() -> Iterator[Case]:
    """Long because it is a list of cases."""
    yield case("RESHAPE", "RESHAPE", x(2, 6), const([3, -1]), table="ReshapeOptions")
    yield case("RESHAPE_option", "RESHAPE", x(2, 6), table="ReshapeOptions", new_shape=[4, 3])
    yield case("SQUEEZE", "SQUEEZE", x(1, 3, 1, 2), table="SqueezeOptions", squeeze_dims=[0])
    yield case("SQUEEZE_all", "SQUEEZE", x(1, 3, 1, 2), table="SqueezeOptions", squeeze_dims=[])
    yield case("EXPAND_DIMS", "EXPAND_DIMS", x(3, 2), const([-1]))
    yield case("TRANSPOSE", "TRANSPOSE", x(2, 3, 4), const([2, 0, 1]))
    yield case("TRANSPOSE_i8", "TRANSPOSE", q(2, 3, 4), const([2, 0, 1]), out=q())
    yield case("TILE", "TILE", x(2, 3), const([2, 2]))
    yield case("BROADCAST_TO", "BROADCAST_TO", x(1, 3), const([2, 4, 3]))
    yield case(
        "BROADCAST_ARGS", "BROADCAST_ARGS", const([2, 1, 3]), const([4, 1]), out=Tensor("i32")
    )
    yield case("SHAPE", "SHAPE", x(2, 3, 4), out=Tensor("i32"), table="ShapeOptions", out_type=2)
    yield case("RANK", "RANK", x(2, 3, 4), out=Tensor("i32"))
    yield case(
        "SPACE_TO_DEPTH", "SPACE_TO_DEPTH", x(1, 4, 6, 3), table="SpaceToDepthOptions", block_size=2
    )
    yield case(
        "DEPTH_TO_SPACE",
        "DEPTH_TO_SPACE",
        x(1, 2, 3, 12),
        table="DepthToSpaceOptions",
        block_size=2,
    )
    yield case(
        "SPACE_TO_BATCH_ND",
        "SPACE_TO_BATCH_ND",
        x(2, 3, 4, 2),
        const([2, 2]),
        const([[1, 0], [0, 2]]),
    )
    yield case(
        "BATCH_TO_SPACE_ND",
        "BATCH_TO_SPACE_ND",
        x(8, 2, 3, 2),
        const([2, 2]),
        const([[1, 0], [0, 1]]),
    )
    yield case("PAD", "PAD", x(2, 3), const([[1, 0], [0, 2]]))
    yield case("PAD_i8", "PAD", q(2, 3, zero=9), const([[1, 0], [0, 2]]), out=q(zero=9))
    yield case("PADV2", "PADV2", x(2, 3), const([[1, 0], [0, 2]]), const([2.5], "f32"))
    for mode in (0, 1):
        yield case(
            f"MIRROR_PAD_{mode}",
            "MIRROR_PAD",
            x(3, 4),
            const([[1, 2], [2, 0]]),
            table="MirrorPadOptions",
            mode=mode,
        )
    yield case("REVERSE_V2", "REVERSE_V2", x(2, 3, 4), const([1]))
    yield case(
        "REVERSE_SEQUENCE",
        "REVERSE_SEQUENCE",
        x(3, 5, 2),
        const([2, 5, 1]),
        table="ReverseSequenceOptions",
        seq_dim=1,
        batch_dim=0,
    )
    yield case(
        "CONCATENATION",
        "CONCATENATION",
        x(2, 3),
        x(2, 2),
        table="ConcatenationOptions",
        axis=-1,
        fused_activation_function=0,
    )
    yield case(
        "CONCATENATION_i8",
        "CONCATENATION",
        q(2, 3),
        q(2, 2),
        out=q(),
        table="ConcatenationOptions",
        axis=1,
        fused_activation_function=0,
    )
    yield case("PACK", "PACK", x(2, 3), x(2, 3), table="PackOptions", axis=1, values_count=2)
    yield case(
        "UNPACK", "UNPACK", x(2, 3), out=[Tensor()] * 3, table="UnpackOptions", axis=1, num=3
    )
    yield case(
        "SPLIT", "SPLIT", const(1), x(2, 6), out=[Tensor()] * 3, table="SplitOptions", num_splits=3
    )
    yield case(
        "SPLIT_V",
        "SPLIT_V",
        x(2, 6),
        const([1, -1, 2]),
        const(1),
        out=[Tensor()] * 3,
        table="SplitVOptions",
        num_splits=3,
    )
    yield case("FILL", "FILL", const([2, 3]), x())
    yield case("ZEROS_LIKE", "ZEROS_LIKE", x(2, 3))
    yield case("RANGE", "RANGE", const(2), const(17), const(4), out=Tensor("i32"))
    yield case("RANGE_f32", "RANGE", const(2, "f32"), const(0.1, "f32"), const(-0.3, "f32"))
    yield case(
        "ONE_HOT",
        "ONE_HOT",
        x(4, dtype="i32"),
        const(5),
        const(2.0, "f32"),
        const(-1.0, "f32"),
        table="OneHotOptions",
        axis=-1,
        low=-1,
        high=6,
    )
    yield case("MATRIX_DIAG", "MATRIX_DIAG", x(2, 3))
    yield case("MATRIX_SET_DIAG", "MATRIX_SET_DIAG", x(2, 3, 4), x(2, 3))


def _slices() -> Iterator[Case]:
    yield case("SLICE", "SLICE", x(4, 5, 6), const([1, 0, 2]), const([2, -1, 3]))
    masks = (
        {},
        {"begin_mask": 1},
        {"end_mask": 2},
        {"shrink_axis_mask": 2},
        {"new_axis_mask": 1},
        {"ellipsis_mask": 1},
    )
    for number, mask in enumerate(masks):
        yield case(
            f"STRIDED_SLICE_{number}",
            "STRIDED_SLICE",
            x(5, 6, 7),
            const([1, 2]),
            const([4, 5]),
            const([2, 1]),
            table="StridedSliceOptions",
            offset=False,
            **mask,
        )
    yield case(
        "STRIDED_SLICE_back",
        "STRIDED_SLICE",
        x(5, 6),
        const([-1, 4]),
        const([-6, 0]),
        const([-2, -1]),
        table="StridedSliceOptions",
        offset=False,
    )
    yield case(
        "DYNAMIC_UPDATE_SLICE",
        "DYNAMIC_UPDATE_SLICE",
        x(4, 5),
        x(2, 3),
        x(2, dtype="i32"),
        low=0,
        high=3,
    )
