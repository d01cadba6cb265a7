"""A device with weak arithmetic: quotients that are off, comparisons that NaN and subnormal numbers
confuse. What its target states is repaired or refused, and tested by the kit.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import slate_port
from slate_port import SLATE, SWAPS, SlateBackend

from xlac_sdk.arithmetic import WeakArithmetic, weak
from xlac_sdk.conformance import ConformanceCase, cases, check
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.module import module_text
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.grids import grids
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request, Target

P, F32 = Primitive, DType.F32
FLOATS = (DType.F32, DType.F64)
COMPARED = (P.LT, P.LE, P.EQ, P.NE)
STATED = weak((P.DIV,), FLOATS, ulp=4, flushes=True, nan=False) | weak(
    COMPARED, FLOATS, flushes=True, nan=False
)
WEAK = replace(
    SLATE,
    name="weak C",
    floats={
        **SLATE.floats,
        P.DIV: "WEAKLY(div, {0}, {1})",
        **{p: f"WEAKLY({p.value}, {{0}}, {{1}})" for p in COMPARED},
    },
)
DEVICE = """
#define WEAKLY(f, a, b) _Generic((a) + (b), float: f##_f32, double: f##_f64)((a), (b))
#define MADE(T, I, S, TINY) \\
static inline T flushed_##S(T x) { return x < TINY && x > -TINY ? x * 0 : x; } \\
static inline T div_##S(T a, T b) { \\
    T q = flushed_##S(a) / flushed_##S(b); I bits; \\
    if (a != a || b != b) return 7; \\
    if (2 * q - 2 * q != 0 || !q) return q; \\
    memcpy(&bits, &q, sizeof q); bits += ((bits >> 3) & 7) - 4; memcpy(&q, &bits, sizeof q); \\
    return flushed_##S(q); } \\
static inline int nan_##S(T a, T b) { return a != a || b != b; } \\
static inline int lt_##S(T a, T b) { return nan_##S(a, b) || flushed_##S(a) < flushed_##S(b); } \\
static inline int le_##S(T a, T b) { return nan_##S(a, b) || flushed_##S(a) <= flushed_##S(b); }\\
static inline int eq_##S(T a, T b) { return nan_##S(a, b) || flushed_##S(a) == flushed_##S(b); }\\
static inline int ne_##S(T a, T b) { return !nan_##S(a, b) && flushed_##S(a) != flushed_##S(b); }
MADE(float, int32_t, f32, 0x1p-126f)
MADE(double, int64_t, f64, 0x1p-1022)
"""


class WeakBackend(SlateBackend):
    """The slate port on that device; `stated` is what its target says of it."""

    name = "weak"

    def __init__(self, stated: frozenset[WeakArithmetic] = STATED) -> None:
        self.stated = stated

    def target(self, request: Request) -> Target:
        return replace(super().target(request), weak=self.stated)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        verify_program(program)
        text = slate_port.FILE.render(made=module_text(grids(program, target), WEAK, SWAPS))
        return {"program.c": text.replace("#define RESTRICT", f"{DEVICE}#define RESTRICT", 1)}


TARGET = WeakBackend().target(Request())
WORDS = ("div", "lt", "le", "eq", "ne", "max", "min", "fold", "rsqrt", "tanh", "rem", "as stated")
CASES = [case for case in cases(TARGET) if any(f" {word}" in f" {case.name}" for word in WORDS)]
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")


@needs_cc
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.sampled(40)
def test_what_is_stated_is_repaired(case: ConformanceCase) -> None:
    outcomes = check(case, WeakBackend(), TARGET)
    wrong = [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not wrong, "\n".join(wrong)


def statements(stated: frozenset[WeakArithmetic]) -> list[str]:
    """The outcomes of the cases for what a target states of its own forms, that failed."""
    backend = WeakBackend(stated)
    target = backend.target(Request())
    made = [case for case in cases(target) if case.group == "stated arithmetic"]
    assert len(made) == len(stated)
    return [o.case for c in made for o in check(c, backend, target) if o.status == "failed"]


@needs_cc
def test_the_kit_finds_a_device_that_is_worse_than_stated() -> None:
    close = weak((P.DIV,), ulp=2, flushes=True, nan=False)
    assert statements(close) == ["div of f32 as stated"]
    subnormal = weak((P.LT,), nan=False)
    assert statements(subnormal) == ["lt of f32 as stated"]
    nothing = weak((P.NE,), FLOATS, flushes=True)
    assert statements(nothing) == ["ne of f32 as stated", "ne of f64 as stated"]


def legalized(primitive: Primitive, target: Target, fast: bool = False, lanes: int = 1) -> Kernel:
    """A kernel of one operation on f32."""
    x, y = Buffer("x", F32, 8, align=1), Buffer("y", F32, 8, access=Access.WRITE, align=1)
    b = build.Builder()
    value = build.load(x, 0, lanes)
    b.store(y, 0, build.apply(primitive, value, value))
    return legalize(Kernel("k", (x, y), b.body()), target, fast)


def test_what_cannot_be_repaired_is_refused() -> None:
    flushing = replace(TARGET, weak=weak((P.ADD,), flushes=True))
    with pytest.raises(UnsupportedError, match="flushes subnormals in 'add' of f32") as refused:
        legalized(P.ADD, flushing)
    assert "precision: fast" in refused.value.diagnostics[0].hint
    assert legalized(P.ADD, flushing, fast=True) is not None
    far = replace(TARGET, weak=weak((P.DIV,), ulp=100))
    with pytest.raises(UnsupportedError, match="computes 'div' of f32 inexactly"):
        legalized(P.DIV, far, fast=True)


def test_what_is_good_enough_stays() -> None:
    near = replace(TARGET, weak=weak((P.EXP,), ulp=3) | weak((P.DIV,), ulp=2.5))
    assert near.spells(P.EXP, F32) and not near.spells(P.DIV, F32) and near.spells(P.DIV, DType.F64)
    assert not replace(near, weak=weak((P.EXP,), ulp=3.5)).spells(P.EXP, F32)


def test_statements_are_facts_of_a_target() -> None:
    assert Target.from_json(TARGET.to_json()) == TARGET
    with pytest.raises(ValueError, match="nothing is weak"):
        WeakArithmetic(P.DIV, F32)
    with pytest.raises(ValueError, match="in f32 and f64"):
        WeakArithmetic(P.DIV, DType.I32, ulp=1)
