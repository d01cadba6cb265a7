"""Programs that call cuDNN, on a library that stands in for it and computes on the CPU, through the
real ctypes layer.

Sizes from which a call is worth it are put aside: every convolution and attention that the library
can say is one call.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from cublaslt_harness import F32, Asked
from cuda_harness import ARCH, STANDIN
from numpy.typing import NDArray

from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Request, Target

Array = NDArray[Any]


class Library:
    """What the stand-in was asked for."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(STANDIN.cudnn))
        self._library.standin_cudnn_complaint.restype = ctypes.c_char_p
        self._library.standin_cudnn_count.restype = ctypes.c_long

    def __call__(self, what: str) -> int:
        return int(self._library.standin_cudnn_count(what.encode()))

    @property
    def complaint(self) -> str:
        return bytes(self._library.standin_cudnn_complaint()).decode()


class AskedDnn(Asked):
    """Outputs compiled for an H100, or this machine's GPU, for which every convolution and
    attention is large.
    """

    arch: ClassVar[str] = f"{ARCH}+cudnn"

    def target(self) -> Target:
        made = self.backend.target(Request(arch=self.arch))
        small: dict[str, Any] = {"least": 1, "flops": 1, "workspace": 1 << 20}
        return replace(
            made,
            products=frozenset(),
            convolutions=frozenset(
                replace(known, **small, rounds=False) for known in made.convolutions
            ),
            attentions=frozenset(replace(known, **small) for known in made.attentions),
        )


def conv(
    *shape: Any,
    dtype: DType = F32,
    filters: int = 6,
    kernel: Any = 3,
    constant: bool = False,
    bias: bool = True,
    **given: Any,
) -> Node:
    """A convolution of x, (batch, channels, spatial…) unless `channels_last`."""
    rank = len(shape) - 2
    channels = shape[-1 if given.get("channels_last") else 1]
    weights = (filters, channels // given.get("groups", 1), *((kernel,) * rank))
    w = (
        build.constant(np.random.default_rng(1).integers(-64, 64, weights) / 64, dtype)
        if constant
        else build.param("w", dtype, weights)
    )
    learned = (w, build.param("b", dtype, (filters,))) if bias else (w,)
    return build.apply1(
        f"conv{rank}d",
        build.param("x", dtype, shape),
        *learned,
        filters=filters,
        kernel=kernel,
        bias=bias,
        **given,
    )


def attention(
    dtype: DType,
    queries: tuple[int, int],
    keys: tuple[int, int],
    width: int = 16,
    mask: tuple[int, ...] = (),
    **given: Any,
) -> Node:
    """Of batch 2; sizes are heads and time."""
    sides = (queries, keys, keys)
    operands = [
        build.param(name, dtype, (2, *side, width)) for name, side in zip("qkv", sides, strict=True)
    ]
    masks = [build.param("mask", dtype, mask)] if mask else []
    return build.apply1("attention", *operands, *masks, **given)
