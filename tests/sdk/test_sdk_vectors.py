"""Vectors as C text: every conformance case of vectors, compiled by the C compiler and compared
with the interpreter.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sampling import Some

from xlac_c import BACKEND
from xlac_sdk.conformance import cases, check
from xlac_sdk.dtypes import DType
from xlac_sdk.emit import clanes
from xlac_sdk.emit.cdialect import C99
from xlac_sdk.emit.ctext import kernel_text
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr, Kernel, Space
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import walk
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request

P, F32, BF16 = Primitive, DType.F32, DType.BF16
WIDE = replace(
    C99,
    widest=16,
    vector="struct __align__({align}) {name} {{ {type} lane[{lanes}]; }};",
    unroll="#pragma unroll",
)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.sampled(4)
def test_vectors_mean_in_c_what_they_mean(width: int, some: Some) -> None:
    """Strips, masks, strides, gathers, shuffles, folds, casts and every primitive, four and eight
    lanes at a time; every ninth case, with --all each."""
    target = replace(BACKEND.target(Request()), vector_bytes=width, masked=True, gathers=True)
    chosen = [
        c
        for c in cases(target)
        if c.group == "vectors" or c.name.endswith("vector") or "fold" in c.name
    ]
    chosen = chosen if width == 16 else [c for c in chosen if c.group == "vectors"]
    assert len(chosen) > 8
    outcomes = [o for case in some(chosen, 9) for o in check(case, BACKEND, target)]
    assert [o for o in outcomes if o.status != "passed"] == []


def text(x: Buffer, y: Buffer, at: int, align: int = 0, mask: bool = False) -> str:
    """A kernel that doubles four elements, from a place that is known."""
    b = build.Builder()
    with b.loop("i", 0, 64, 8) as i:
        where = build.ramp(build.add(i, at), 1, 4)
        on = build.splat(build.apply(P.LT, i, build.index(40)), 4) if mask else None
        value = build.cast(build.load(x, where, mask=on, align=align), F32)
        b.store(
            y,
            where,
            build.cast(build.apply(P.MUL, value, Const(2.0, F32, 4)), y.dtype),
            on,
            align=align,
        )
    return "\n".join(kernel_text(Kernel("k", (x, y), b.body()), WIDE).lines)


def buffers(dtype: DType = F32, align: int = 16) -> tuple[Buffer, Buffer]:
    return Buffer("x", dtype, 80, align=align), Buffer(
        "y", dtype, 80, access=Access.WRITE, align=align
    )


def test_aligned_lanes_are_taken_at_once() -> None:
    made = text(*buffers(), at=0)
    assert "*(const f32x4 *)&x[i]" in made and "*(f32x4 *)&y[i] = " in made
    assert "*(const f32x4 *)&x[e1_]" in text(*buffers(), at=4)
    assert "*(const bf16x4 *)&x[i]" in text(*buffers(BF16, 8), at=0)


def test_lanes_that_may_not_be_aligned_are_taken_one_by_one() -> None:
    """By their place, by what the buffer begins at, and where a schedule says more than a launch
    keeps.
    """
    for made in (
        text(*buffers(), at=1),
        text(*buffers(align=4), at=0),
        text(*buffers(align=4), at=0, align=16),
    ):
        assert "*)&" not in made and "i_" in made
    # a schedule may know better than the index says
    assert "*(const f32x4 *)&x[e1_]" in text(*buffers(), at=1, align=16)


def test_a_mask_that_all_lanes_share_is_a_condition() -> None:
    made = text(*buffers(), at=0, mask=True)
    assert "= {0};" in made and made.count("if (") == 2 and "*(f32x4 *)&y[i] = " in made


def test_a_threads_own_array_is_never_taken_by_address() -> None:
    """It would have to be in memory, and not in registers."""
    x, y = buffers()
    b = build.Builder()
    own = b.local("own", F32, 8, Space.LOCAL)
    b.store(own, build.ramp(0, 1, 4), build.load(x, build.ramp(0, 1, 4)), align=16)
    b.store(y, build.ramp(0, 1, 4), build.load(own, build.ramp(0, 1, 4), align=16))
    made = "\n".join(kernel_text(Kernel("k", (x, y), b.body()), WIDE).lines)
    assert "&own" not in made and "&y[0]" in made


def test_vectors_that_nobody_else_reads_are_scalars_of_one_loop() -> None:
    x, y = buffers()
    b = build.Builder()
    at = build.ramp(0, 1, 4)
    value = b.let("v", build.load(x, at))
    for _ in range(3):
        value = b.let("v", build.apply(P.MUL, value, value))
    b.store(y, at, value)
    made = "\n".join(kernel_text(Kernel("k", (x, y), b.body()), WIDE).lines)
    assert made.count("for (") == 1 and "const float v_1 = v.lane[i_] * v.lane[i_];" in made
    assert "v_3.lane[i_] = v_2 * v_2;" in made and "*(f32x4 *)&y[0] = v_3;" in made


def test_statements_of_one_loop_are_walked_a_number_of_times_that_does_not_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked = 0

    def counted(exprs: Sequence[Expr]) -> list[Expr]:
        nonlocal walked
        found = walk(exprs)
        walked += len(found)
        return found

    monkeypatch.setattr(clanes, "walk", counted)

    def work(count: int) -> int:
        nonlocal walked
        x, y = buffers()
        b = build.Builder()
        value = b.let("v", build.load(x, build.ramp(0, 1, 4)))
        for _ in range(count):
            value = b.let("v", build.apply(P.MUL, value, value))
        b.store(y, build.ramp(0, 1, 4), value)
        walked = 0
        kernel_text(Kernel("k", (x, y), b.body()), WIDE)
        return walked

    assert 0 < work(200) < 2.5 * work(100)


def test_a_store_over_what_it_reads_reads_first() -> None:
    """Shifted by one, lane by lane, each lane would read what the one before has written."""
    y = Buffer("y", F32, 80, access=Access.UPDATE, align=4)
    b = build.Builder()
    b.store(y, build.ramp(1, 1, 4), build.load(y, build.ramp(0, 1, 4)))
    lines = kernel_text(Kernel("k", (y,), b.body()), WIDE).lines
    read = next(n for n, line in enumerate(lines) if "= y[" in line)
    written = next(n for n, line in enumerate(lines) if "] = e1_" in line)
    assert read < written


def test_a_dialect_without_vectors_says_so() -> None:
    x, y = buffers()
    b = build.Builder()
    b.store(y, build.ramp(0, 1, 4), build.load(x, build.ramp(0, 1, 4)))
    with pytest.raises(UnsupportedError, match="has no vectors"):
        kernel_text(Kernel("k", (x, y), b.body()), replace(C99, vector=""))
