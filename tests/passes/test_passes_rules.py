"""Every rule of every table is true: what stands before it and what stands after it compute the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from xlac.ir.graph import Graph, Node, walk
from xlac.ir.interpret import interpret
from xlac.ir.op import Array, Op
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast
from xlac.passes.pipeline import RULES
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.pattern import Equation, x, y
from xlac.passes.rewrite.rule import Structural
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


class Plain:
    """A site that simplifies nothing."""

    def __init__(self, precision: str, *more: Primitive) -> None:
        """`more` are primitives that the target spells too."""
        usual = Target("vectors", 64, 32)
        target = replace(usual, primitives=usual.primitives | {*more})
        self.context = PassContext(target, precision=precision)

    def make(self, op: Op, *inputs: Node) -> Node:
        return Node.of(op, *inputs)

    def with_inputs(self, node: Node, *inputs: Node) -> Node:
        return Node.of(node.op, *inputs, origin=node.origin)

    def has(self, op: Op, *inputs: Node) -> bool:
        return True

    def single(self, node: Node) -> bool:
        return True


def values(dtype: DType) -> Array:
    """Every special value of an element type, and some ordinary ones."""
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_float:
        info = np.finfo(dtype.numpy) if dtype is not DType.BF16 else np.finfo(np.float32)
        tiny, most = float(info.tiny), float(info.max) * 0.996
        known = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            0.5,
            -3.0,
            1.7,
            np.inf,
            -np.inf,
            np.nan,
            tiny,
            -tiny / 2,
            most,
            -most,
            2.5,
            1e-3,
        ]
        return (
            np.array(known)
            .astype(np.float32 if dtype is not DType.F64 else np.float64)
            .astype(dtype.numpy)
        )
    info = np.iinfo(dtype.numpy)
    known = [0, 1, 2, 3, 4, 7, 8, info.max, info.min, info.max - 1, info.max // 3, 64]
    known += [-1, -2, -3, -8] if dtype.is_signed else []
    return np.array(known, dtype.numpy)


def tame(dtype: DType) -> Array:
    """Positive values near 1, for rules that hold for real numbers."""
    return np.linspace(0.5, 2.0, 13).astype(dtype.numpy)


def scalars(dtype: DType, rule: Equation) -> Iterator[dict[str, Node]]:
    """Constants for c and d."""
    wanted = [name for name in ("c", "d") if name in rule.before.wildcards()]
    choices = tame(dtype) if rule.rounding else values(dtype)
    for chosen in product(choices, repeat=len(wanted)):
        yield {name: Node.of(Const(np.asarray(v))) for name, v in zip(wanted, chosen, strict=True)}


def agree(
    rule: Equation | Structural,
    before: Node,
    after: Node,
    given: dict[str, Array],
    ulps: int,
    loose: bool,
) -> None:
    graph = Graph("rule", (), {"before": before, "after": after})
    found = interpret(graph, given, given)
    a, b = found["before"], found["after"]
    assert before.type == after.type, f"rule {rule.name}: {before.type} becomes {after.type}"
    if isinstance(rule, Structural) and rule.sharpens:
        b = np.where(np.isfinite(a), b, a)
    if loose:
        eps = 0.05 if before.type.dtype.is_half else 1e-5
        same = np.isclose(
            a.astype(np.float64), b.astype(np.float64), rtol=eps, atol=eps, equal_nan=True
        )
    elif before.type.dtype.is_float:
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        same = (wide_a == wide_b) & (np.signbit(wide_a) == np.signbit(wide_b)) | (
            np.isnan(wide_a) & np.isnan(wide_b)
        )
        if ulps:
            with np.errstate(all="ignore"):
                step = np.spacing(np.abs(a)).astype(np.float64)
                same |= np.abs(wide_a - wide_b) <= ulps * step
    else:
        same = a == b
    assert np.all(same), (
        f"rule {rule.name} is wrong for {before.type.dtype}: {a[~same].ravel()[:4]} became "
        f"{b[~same].ravel()[:4]}"
    )


def check_equation(rule: Equation) -> None:
    for dtype in rule.dtypes if rule.rounding is False else [d for d in rule.dtypes if d.is_float]:
        if not acceptable(rule, dtype):
            continue
        names = sorted(rule.before.wildcards() - {"c", "d"})
        choices = [
            values(DType.BOOL) if n == "p" else tame(dtype) if rule.rounding else values(dtype)
            for n in names
        ]
        grid = np.meshgrid(*choices, indexing="ij")
        given = {n: np.ascontiguousarray(g.ravel()) for n, g in zip(names, grid, strict=True)}
        params = {n: Node.of(Param(n, Type(DType.of(g.dtype), g.shape))) for n, g in given.items()}
        site = Plain("fast" if rule.rounding else "default")
        fired = 0
        for constants in scalars(dtype, rule):
            like = next(iter(params.values()))
            full = {
                name: Node.of(Broadcast(like.shape, ()), value) for name, value in constants.items()
            }
            found = params | full
            if rule.guard is not None and not rule.guard(found):
                continue
            before = rule.before.build(found, params.get("x", like), site)
            after = rule.rewrite(before, site)
            assert after is not None, f"rule {rule.name} does not apply to {dtype}"
            agree(rule, before, after, given, rule.ulps, rule.rounding)
            fired += 1
        assert fired, f"rule {rule.name} never applies to {dtype}"


def acceptable(rule: Equation, dtype: DType) -> bool:
    """Rules that name no types hold for whatever the operations in them take."""
    probe = Node.of(Param("x", Type(dtype)))
    truth = Node.of(Param("p", Type(DType.BOOL)))
    constant = Node.of(Const(np.zeros((), dtype.numpy)))
    found = {
        n: truth if n == "p" else constant if n in "cd" else probe for n in rule.before.wildcards()
    }
    try:
        rule.before.build(found, probe, Plain("default"))
    except ValueError:
        assert len(rule.dtypes) == len(DType), (
            f"rule {rule.name} names {dtype}, which it cannot have"
        )
        return False
    return True


def check_structural(rule: Structural) -> None:
    for number, example in enumerate(rule.examples):
        given: dict[str, Array] = {}
        random = np.random.default_rng(number)

        def parameter(
            *shape: int,
            dtype: DType = DType.F32,
            kind: str = "input",
            given: Any = given,
            random: Any = random,
        ) -> Node:
            name = f"x{len(given)}"
            given[name] = random.choice(values(dtype), shape)
            if dtype.is_float and rule.rounding:
                given[name] = random.uniform(0.5, 2, shape).astype(dtype.numpy)
            return Node.of(Param(name, Type(dtype, shape), kind))

        before = example(parameter)
        precision = "fast" if rule.rounding else "default"
        after = rule.rewrite(before, Plain(precision))
        if after is None:
            after = rule.rewrite(before, Plain(precision, Primitive.DOT2))
        assert after is not None, f"rule {rule.name} does not apply to its example {number}"
        sums = [
            n
            for n in walk([before])
            if isinstance(n.op, Dot | Conv) or getattr(n.op, "combine", "") in ("add", "mul")
        ]
        if sums and before.type.dtype.is_float:
            given = {n: np.nan_to_num(g, posinf=2, neginf=-2).clip(-2, 2) for n, g in given.items()}
            given = {
                n: g if len(sums) < 2 and not rule.reassociates else np.abs(g) + g.dtype.type(1)
                for n, g in given.items()
            }
        agree(
            rule,
            before,
            after,
            given,
            0,
            rule.rounding or rule.reassociates or rule.sharpens or len(sums) > 1,
        )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule(rule: Equation | Structural) -> None:
    with np.errstate(all="ignore"):
        check_equation(rule) if isinstance(rule, Equation) else check_structural(rule)


def test_a_wrong_rule_is_caught_by_name() -> None:
    planted = x - y >> y - x
    with pytest.raises(AssertionError, match=r"rule \(x - y\) >> \(y - x\) is wrong"):
        check_equation(planted)


def test_signed_zero_is_seen() -> None:
    with pytest.raises(AssertionError, match="is wrong for"):
        check_equation((x + 0 >> x).on({DType.F32}))


def test_rules_have_different_names() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names)), {n for n in names if names.count(n) > 1}


def _first(a: Node, m: Node, b: Node, n: Node) -> list[Node]:
    """The larger of two elements and its number."""
    keeps = build.compare(a, "ge", b)
    return [build.select(keeps, a, b), build.select(keeps, m, n)]


def test_rules_leave_operations_with_several_results() -> None:
    """Windows, reductions and sorts of several arrays: no rule fails or changes its types."""
    f, i = Type(DType.F32), Type(DType.I32)
    body = build.graph("first", [f, i, f, i], _first)
    before = build.graph("before", [f, f, i, i], lambda a, b, *_: build.compare(a, "lt", b))
    x, y = build.param("x", DType.F32, (5, 6)), build.param("y", DType.I32, (5, 6))
    starts = build.constant(np.float32(-np.inf)), build.constant(np.int32(-1))
    ones, none = (1, 1), (0, 0)
    several = [
        Node.of(Window("body", body, (2, 9), ones, none, (1, 8), ones, ones), x, y, *starts),
        Node.of(Reduce((1,), "body", body), x, y, *starts),
        Node.of(Sort(axis=1, body=before), x, y),
    ]
    for node in several:
        assert len(node.results) == 2
        tried = [rule for rule in RULES if isinstance(node.op, rule.heads)]
        assert tried, f"no rule is tried on {node.op.mnemonic}"
        for rule in tried:
            after = rule.rewrite(node, Plain("fast"))
            assert after is None or after.results == node.results, rule.name
