"""What is known of conditions that other conditions are made of."""

from __future__ import annotations

from xlac.codegen.core.seams.conditions import Knowledge
from xlac.codegen.core.seams.lane_forms import Facts
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive

LONG = 200  # of which there are 2 ** 200 paths to the first condition


def chain(first: Expr) -> tuple[Expr, Knowledge]:
    """A condition over conditions that each read the one before twice."""
    conditions = {"c0": first}
    for number in range(LONG):
        before = Var(f"c{number}", DType.BOOL)
        inverse = Apply(Primitive.NOT, (before,), DType.BOOL)
        twice = Apply(Primitive.OR, (before, inverse), DType.BOOL)
        conditions[f"c{number + 1}"] = Apply(Primitive.AND, (before, twice), DType.BOOL)
    return Var(f"c{LONG}", DType.BOOL), Knowledge({}, conditions, Facts())


def test_a_condition_that_many_read_is_followed_once() -> None:
    for value in (True, False):
        last, known = chain(Const(value, DType.BOOL))
        assert known.truths(last) == (value,)
    unknown, known = chain(Var("read", DType.BOOL))
    assert known.truths(unknown) is None


def test_its_comparisons_are_told_once() -> None:
    i = Var("i", DType.I64, low=0, high=9)
    last, known = chain(Apply(Primitive.LT, (i, Const(3, DType.I64)), DType.BOOL))
    ((x, y),) = known.comparisons(last)
    assert (x.base, y.offsets) == (i, (3,))
