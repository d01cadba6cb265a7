"""Groups that Winograd's algorithm can compute, and schedules of it."""

from __future__ import annotations

from dataclasses import replace

from contraction_harness import TARGETS, conv, group
from schedule_draws import Drawn

from xlac.fusion.group import Group, Kind
from xlac.ops import build

AVX2, SSE = TARGETS["avx2"], TARGETS["sse"]
SHARED = {"threads": {"loops": 1, "grain": 1}}


def few_taps() -> Group:
    """A convolution that Winograd's method serves, whose tiles go beyond the result."""
    y = conv((1, 3, 3, 8), (3, 3, 8, 16), pad=1)
    return group(Kind.CONV, y, build.maximum(y, 0.0))


def whole_maps_of_cotangents() -> Group:
    """The gradient for weights of a 3x3 convolution, whose tiles go beyond the maps."""
    y = conv((8, 5, 6, 2), (5, 6, 2, 16), pad=1, kind="input")
    return group(Kind.CONV, y, build.maximum(y, 0.0))


WINOGRAD_WEIGHTS = {
    "template": "winograd_weights",
    "lanes": 8,
    "tile_threads": {"loops": 0, "grain": 1},
    "threads": {"loops": 0, "grain": 1},
    "epilogue_loop": False,
}

WINOGRAD = {
    "template": "winograd",
    "results": 2,
    "input_threads": {"loops": 0, "grain": 1},
    "tile": {"rows": [1, 2], "vectors": 1, "lanes": 8},
    "block": 1,
    "chunk": 8,
    "unroll": [4, 2],
    "hold": "right",
    "threads": {"loops": 0, "grain": 1},
    "epilogue_loop": False,
}

ONE_TILE = {"rows": [1, 1], "vectors": 1, "lanes": 8}
SMALL_WINOGRAD = {**WINOGRAD, "tile": {"rows": [1, 3], "vectors": 2, "lanes": 4}}

WINOGRAD_CASES: dict[str, Drawn] = {
    "winograd": Drawn(
        few_taps,
        replace(AVX2, fast=True),
        "winograd",
        instead=WINOGRAD,
        starts=({"tile": ONE_TILE, "input_threads": SHARED["threads"], **SHARED},),
    ),
    "winograd_weights": Drawn(
        whole_maps_of_cotangents,
        AVX2,
        "winograd_weights",
        instead=WINOGRAD_WEIGHTS,
        starts=({"tile_threads": SHARED["threads"], **SHARED, "epilogue_loop": True},),
    ),
    "winograd_weights_sse": Drawn(
        whole_maps_of_cotangents,
        replace(SSE, fast=True),
        "winograd_weights",
        instead={**WINOGRAD_WEIGHTS, "lanes": 4},
    ),
    "winograd_guarded": Drawn(few_taps, SSE, "winograd", instead=SMALL_WINOGRAD),
}
