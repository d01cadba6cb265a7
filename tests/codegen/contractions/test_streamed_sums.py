"""Contractions whose sum is the outermost loop: right for every size, type and piece of a result,
with equal bits at any number of threads, and only where that pays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, compute, cpu, group, meaning, param, values
from schedule_draws import lowered

from xlac.codegen.cpu.gemm import streamed_choice
from xlac.codegen.schedules.gemm import StreamedGemmSchedule
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.error_bounds import SUMS
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Allocate, statements
from xlac_sdk.target import Target

F32 = DType.F32
AVX512, AVX2, SSE = (TARGETS[name] for name in ("avx512", "avx2", "sse"))


def gradient(
    channels: int,
    columns: int,
    batch: int,
    pixels: tuple[int, int],
    kernel: tuple[int, int] = (1, 1),
    stride: int = 1,
    *,
    low: tuple[int, int] = (0, 0),
    high: tuple[int, int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
    dtype: DType = F32,
    oihw: bool = True,
) -> Group:
    """The gradient for the weights of a convolution, of maps as a network has them: batch, rows,
    columns, channels; `pixels` are those of its result. It is [out, in, rows, columns], or has its
    output channels last.
    """
    sizes = [
        (p - 1) * stride + (k - 1) * dilation + 1 - below - above
        for p, k, below, above in zip(pixels, kernel, low, high, strict=True)
    ]
    x = param("x", Type(dtype, (batch, *sizes, channels)))
    cotangents = param("kernel", Type(dtype, (batch, *pixels, columns)))
    op = Conv(
        ("NHWC", "HWIO", "NHWC"),
        (dilation, dilation),
        low,
        high,
        (1, 1),
        (stride, stride),
        batch_groups=groups,
    )
    operands = build.transpose(x, (3, 1, 2, 0)), build.transpose(cotangents, (1, 2, 0, 3))
    anchor = Node.of(op, *operands)
    return group(Kind.CONV, anchor, build.transpose(anchor, (3, 0, 1, 2)) if oihw else anchor)


def is_streamed(made: Group, target: Target) -> bool:
    """Whether a kernel of a group streams its sum."""
    found = lowered(made, target)
    assert found is not None
    return any(isinstance(one, StreamedGemmSchedule) for one in dict(found.schedules).values())


SIZES: dict[str, Callable[[], Group]] = {
    "pointwise": lambda: gradient(24, 32, 2, (14, 15)),
    "pointwise strided": lambda: gradient(20, 48, 2, (13, 17), stride=2),
    "output channels last": lambda: gradient(24, 37, 1, (20, 21), oihw=False),
    "3x3 strided": lambda: gradient(9, 17, 1, (20, 21), (3, 3), 2, low=(1, 1), high=(1, 0)),
    "stem": lambda: gradient(3, 16, 1, (20, 20), (7, 7), 2, low=(3, 3), high=(2, 2)),
    "dilated": lambda: gradient(8, 16, 1, (23, 18), (3, 2), dilation=2, low=(2, 1), high=(0, 3)),
    "cropped": lambda: gradient(8, 16, 1, (23, 19), (2, 3), low=(-1, 0), high=(0, -2)),
    "grouped": lambda: gradient(32, 32, 1, (20, 21), (3, 3), 2, low=(1, 1), groups=2),
    "a sum of a prime": lambda: gradient(11, 19, 1, (1, 397)),
    "f64": lambda: gradient(13, 16, 1, (20, 20), (2, 2), 3, dtype=DType.F64),
    "f16": lambda: gradient(13, 32, 1, (20, 20), (2, 2), 3, dtype=DType.F16),
    "bf16": lambda: gradient(13, 32, 1, (20, 20), stride=2, dtype=DType.BF16),
}


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=["avx512", "avx2", "sse"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.sampled(9)
def test_sizes(size: str, target: Target) -> None:
    made = SIZES[size]()
    assert is_streamed(made, target)
    agree(made, target)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sums", [1, 700, 2000])
@pytest.mark.sampled(6)
def test_small_pieces(size: str, sums: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_choice, "SUMS", sums)
    agree(SIZES[size](), AVX512)


def drawn(random: Random) -> Group:
    """A gradient of random sizes."""
    kernel = random.randint(1, 3), random.randint(1, 3)
    low, high = ((random.randint(-1, 2), random.randint(-1, 2)) for _ in range(2))
    return gradient(
        random.randint(8, 40),
        random.randint(16, 70),
        random.randint(1, 3),
        (random.randint(14, 20), random.randint(28, 33)),
        kernel,
        random.randint(1, 3),
        low=low,
        high=high,
        dilation=random.randint(1, 2),
        oihw=random.random() < 0.5,
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(12)
def test_errors_of_random_gradients_are_within_the_documented_bound(seed: int) -> None:
    random = Random(seed)
    made, target = drawn(random), random.choice([cpu(), cpu(2)])
    assert is_streamed(made, target)
    given = values(made, seed)
    (got,) = compute(made, target, given)
    wide = {name: array.astype(np.float64) for name, array in given.items()}
    (exact,) = meaning(made, wide)
    (sizes,) = meaning(made, {name: np.abs(array) for name, array in wide.items()})
    assert (np.abs(got - exact) <= SUMS["dot"].cpu * 2.0**-24 * sizes).all()


@pytest.mark.parametrize("size", ["pointwise strided", "3x3 strided", "stem", "grouped"])
def test_bits_are_equal_at_any_number_of_threads(size: str) -> None:
    made = SIZES[size]()
    given = values(made)
    results = [compute(made, cpu(threads), given)[0] for threads in (1, 2, 5)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_not_finite_elements_behind_the_end_of_a_sum_are_not_read_again() -> None:
    made = gradient(11, 19, 1, (1, 397))
    given = values(made)
    given["x"][0, 0, 120:125] = np.inf
    given["kernel"][0, 0, 120:125] = 1.0
    (got,) = compute(made, AVX512, given)
    np.testing.assert_array_equal(got, meaning(made, given)[0])


def test_what_follows_is_computed_on_results() -> None:
    made = gradient(24, 32, 2, (14, 15), oihw=False)
    weight = param("w", made.anchor.type)
    new = build.sub(weight, build.mul(made.anchor, 0.1))
    agree(group(Kind.CONV, made.anchor, new, made.anchor), AVX512)


LARGE: dict[str, Callable[[], Group]] = {
    "many rows": lambda: gradient(8192, 16, 32, (16, 16)),
    "many columns": lambda: gradient(16, 8192, 32, (16, 16)),
    "many taps": lambda: gradient(512, 512, 32, (8, 8), (3, 3), 2),
    "doubles": lambda: gradient(512, 512, 32, (16, 16), dtype=DType.F64),
}


@pytest.mark.parametrize("size", LARGE)
def test_local_arrays_fit_in_the_stack_of_a_thread(size: str) -> None:
    found = lowered(LARGE[size](), AVX512)
    assert found is not None
    taken = [
        sum(
            size_hint(one.buffer.size) * one.buffer.dtype.nbytes
            for one in statements(launch.kernel.body)
            if isinstance(one, Allocate)
        )
        for launch in found.launches
    ]
    assert 0 < max(taken) <= streamed_choice.LOCAL


def test_where_it_pays() -> None:
    assert is_streamed(gradient(64, 128, 32, (16, 16), stride=2), AVX512)
    assert not is_streamed(gradient(64, 128, 1, (16, 16)), AVX512)  # a short sum
    assert not is_streamed(gradient(64, 4, 32, (16, 16)), AVX512)  # few columns
    assert not is_streamed(gradient(64, 128, 32, (16, 16)), TARGETS["scalar"])
    assert not is_streamed(gradient(64, 128, 32, (16, 16)), replace(AVX512, size=True))
