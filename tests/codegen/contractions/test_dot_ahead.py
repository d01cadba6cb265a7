"""Panels that do not stay in the second cache are fetched while the panel before them is used: each
line, in time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, group
from dot_groups import matmul

from xlac.codegen.core.lowered_group import PackedConstant
from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Kind
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Kernel, Prefetch, Stmt, Store, children
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.target import Target

SMALL = replace(TARGETS["avx512"], threads=1).with_facts(l2_bytes=256 << 10)


class Marking(KernelRewriter):
    """Turns every fetch into a mark at the element that is fetched."""

    def __init__(self, marks: Buffer) -> None:
        super().__init__()
        self.marks = marks

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Prefetch):
            return Store(self.marks, stmt.index, Const(1, DType.U8))
        return super().stmt(stmt)


def fetched(kernel: Kernel) -> set[int]:
    """The lines of the right operand that a kernel fetches, in the interpreter."""
    (packed,) = {s.buffer for s in every(kernel.body) if isinstance(s, Prefetch)}
    marks = Buffer("marks", DType.U8, 2 * int(packed.size), access=Access.WRITE)
    made = replace(
        kernel, parameters=(*kernel.parameters, marks), body=Marking(marks).block(kernel.body)
    )
    arrays = {b.name: np.zeros(int(b.size), b.dtype.numpy) for b in made.parameters}
    run_kernel(made, arrays)
    return set((np.flatnonzero(arrays["marks"]) * packed.dtype.nbytes // 64).tolist())


def every(body: tuple[Stmt, ...]) -> list[Stmt]:
    return [
        inner
        for stmt in body
        for inner in (stmt, *(s for block in children(stmt) for s in every(block)))
    ]


def kernel_of(made: Group, target: Target) -> Kernel:
    return lower(made, target, "k").launches[-1].kernel


@pytest.mark.parametrize(
    "m, n, k", [(32, 192, 200), (40, 320, 130), (28, 96, 1024)], ids=["panels", "odd", "chunks"]
)
@pytest.mark.sampled(6)
@pytest.mark.long
def test_every_line_behind_the_first_panel_is_fetched(m: int, n: int, k: int) -> None:
    made = group(Kind.DOT, matmul(m, n, k, "weight"))
    launch = lower(made, SMALL, "k").launches[-1]
    (packed,) = (value for value in launch.arguments if isinstance(value, PackedConstant))
    lines = fetched(launch.kernel)
    first, last = min(lines), packed.size * 4 // 64
    assert first <= k * 8 * 16 * 4 // 64, "what the first panel or chunk is followed by"
    assert set(range(first, last)) <= lines
    agree(made, SMALL)


def test_what_stays_in_the_cache_and_what_is_read_once_is_not_fetched() -> None:
    for made, target in (
        (group(Kind.DOT, matmul(64, 64, 32, "weight")), SMALL),
        (group(Kind.DOT, matmul(2, 192, 200, "weight")), SMALL),
        (
            group(Kind.DOT, matmul(64, 192, 200, "weight")),
            TARGETS["scalar"].with_facts(l2_bytes=1 << 10),
        ),
    ):
        assert not [s for s in every(kernel_of(made, target).body) if isinstance(s, Prefetch)]
