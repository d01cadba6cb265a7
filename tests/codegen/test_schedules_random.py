"""Kernels of schedules drawn at random compute what the graph means, and every field is heeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partialmethod
from random import Random
from typing import Any

import numpy as np
import pytest
from contraction_harness import TARGETS, TOLERANCE, compute, conv, group, meaning, values
from gpu_schedule_cases import GPU_CASES
from kind_schedule_cases import KIND_CASES
from operand_schedule_cases import OPERAND_CASES
from schedule_draws import (
    Drawn,
    Field,
    dot,
    drawn,
    every_field,
    lowered,
    matmul,
    neighbours,
    text,
    x,
)

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.cpu import elementwise
from xlac.codegen.cpu.gemm.inner_product import InnerProduct
from xlac.codegen.schedules.schedule import Schedule, from_data, to_data
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.view import Broadcast
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import KernelFault
from xlac_sdk.target import Target

F32, F16 = DType.F32, DType.F16
AVX512, AVX2, SSE = TARGETS["avx512"], TARGETS["avx2"], TARGETS["sse"]
VECTORIZED = replace(SSE, vectorizes=True)


def chain() -> Group:
    first, row = x("x", 7, 5, 12), x("y", 5, 1)
    wide = Node.of(Broadcast((7, 5, 12), (1, 2)), row)
    return group(Kind.ELEMENTWISE, build.mul(build.add(first, wide), first))


def two_shapes() -> Group:
    y, z = build.exp(x("x", 9, 33)), build.exp(x("z", 70))
    return group(Kind.ELEMENTWISE, y, y, z)


def transposition() -> Group:
    return group(Kind.ELEMENTWISE, build.transpose(x("x", 48, 64), (1, 0)))


def reduced(value: Node, axes: tuple[int, ...], combine: str = "add") -> Node:
    return Node.of(Reduce(axes, combine), value)


def softmax() -> Group:
    value = x("x", 5, 3, 70)
    powers = build.exp(value)
    total = Node.of(Broadcast((5, 3, 70), (0, 1)), reduced(powers, (2,)))
    return group(Kind.ROWS, build.div(powers, total))


def two_kept() -> Group:
    """Two values that are dear, and read again when their sum is known."""
    first, second = (build.exp(x(n, 3, 40)) for n in "ab")
    total = Node.of(Broadcast((3, 40), (0,)), reduced(build.add(first, second), (1,)))
    return group(Kind.ROWS, build.mul(build.div(first, total), second))


def long_rows() -> Group:
    """Rows that do not fit the stack: what is kept is in the rows of an output."""
    powers = build.exp(x("x", 2, 9000))
    total = Node.of(Broadcast((2, 9000), (0,)), reduced(powers, (1,)))
    return group(Kind.ROWS, build.div(powers, total))


def columns() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 6, 5, 40), (0,), "max"))


def few_results() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 40, 3, 20), (0,)))


def two_loops() -> Group:
    return group(Kind.REDUCE, reduced(x("x", 16, 3, 50), (0, 2)))


def turned_cube() -> Group:
    return group(Kind.ELEMENTWISE, build.transpose(x("x", 34, 33, 35), (2, 1, 0)))


def large() -> Group:
    y = x("x", 300, 300)
    return group(Kind.ELEMENTWISE, build.add(y, y))


def half() -> Group:
    b = x("b", 40, 19, dtype=F16, kind="weight")
    y = Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), x("a", 9, 40, dtype=F16), b)
    return group(Kind.DOT, y)


def column() -> Group:
    """A matrix, the other way round, by a vector: swapped, the product of one row by a matrix."""
    a, b = x("a", 12, 30, kind="weight"), x("b", 12, 1, kind="weight")
    return group(Kind.DOT, Node.of(Dot(contract_lhs=(0,), contract_rhs=(0,)), a, b))


def window() -> Group:
    """A convolution whose neighbouring rows read elements of each other's next steps."""
    return group(Kind.CONV, conv((1, 1, 30, 1), (1, 3, 1, 8)))


def transposed_result() -> Group:
    y = build.transpose(matmul(20, 24, 9), (1, 0))
    return group(Kind.DOT, y.inputs[0], y)


def long_epilogue() -> Group:
    y = matmul(10, 20, 7, kind="weight")
    z = y
    for _ in range(13):
        z = build.add(z, y)
    return group(Kind.DOT, y, z)


ONE = {"rows": (1, 1), "vectors": 1, "lanes": 1}
SINGLE = {"tile": ONE, "right": "constant", "backward": False}
PIECES = {"blocking": {"axis": "second", "piece": 1, "parts": 1, "chunk": 0}}
ONE_KEPT = {"kept": ({"value": 0, "output": None},)}
SHARED = {"threads": {"loops": 1, "grain": 1}}


def split(loops: list[list[int]], vector: int, stretch: int) -> Mapping[str, object]:
    return {
        "template": "split_reduction", "loops": loops, "vector": vector, "lanes": 4, "unroll": [2],
        "join": False, "cut": 0, "stretch": stretch, "threads": {"loops": 1, "grain": 1},
        "combine_lanes": 4,
    }  # fmt: skip


CASES: dict[str, Drawn] = {
    "chain": Drawn(chain, AVX512, "elementwise", exact=True),
    "chain_sse": Drawn(chain, SSE, "elementwise", exact=True),
    "two_shapes": Drawn(two_shapes, AVX2, "elementwise", exact=True),
    "transposition": Drawn(transposition, AVX2, "elementwise", exact=True),
    "turned_cube": Drawn(turned_cube, AVX2, "elementwise", exact=True),
    "large": Drawn(large, SSE, "elementwise", exact=True),
    "rows": Drawn(softmax, AVX512, "row_reduction", starts=(SHARED,)),
    "two_kept": Drawn(two_kept, AVX2, "row_reduction", starts=(ONE_KEPT,)),
    "rows_sse": Drawn(softmax, SSE, "row_reduction"),
    "rows_long": Drawn(long_rows, AVX2, "row_reduction"),
    "columns": Drawn(columns, AVX2, "row_reduction", starts=(SHARED,)),
    "few_results": Drawn(
        few_results, AVX512, "split_reduction", instead=split([[0], [1, 2]], 1, 7)
    ),
    "two_loops": Drawn(two_loops, AVX2, "split_reduction", instead=split([[0], [1], [2]], 2, 8)),
    "dot_constant": Drawn(dot(13, 40, 19, kind="weight"), AVX512, "gemm", starts=(SHARED,)),
    "dot_stream": Drawn(dot(1, 40, 19, kind="weight"), AVX2, "gemm"),
    "dot_direct": Drawn(dot(9, 32, 21), AVX2, "gemm"),
    "dot_packed": Drawn(dot(21, 35, 17, turned=True), SSE, "gemm pack", starts=(SHARED, PIECES)),
    "dot_long": Drawn(dot(20, 8, 512, kind="weight"), AVX2.with_facts(l2_bytes=4 << 10), "gemm"),
    "dot_half": Drawn(half, AVX512, "gemm"),
    "window": Drawn(window, SSE, "gemm"),
    "dot_column": Drawn(dot(30, 1, 40), AVX512, "inner_product", starts=(SHARED,)),
    "dot_transposed": Drawn(transposed_result, AVX2, "gemm"),
    "dot_epilogue": Drawn(long_epilogue, AVX2, "gemm"),
    "inner_product": Drawn(dot(3, 7, 70, turned=True), AVX512, "inner_product"),
    "vectorized": Drawn(dot(5, 30, 11, kind="weight"), VECTORIZED, "autovectorized"),
    "vectorized_column": Drawn(
        column, VECTORIZED, "autovectorized", starts=({"width": 1, "right": "constant"},)
    ),
    "gemm_column": Drawn(column, SSE, "gemm", starts=(SINGLE,)),
    **KIND_CASES,
    **GPU_CASES,
    **OPERAND_CASES,
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.runs])
@pytest.mark.sampled(160)
def test_any_schedule_computes_the_same(name: str, seed: int) -> None:
    case, rng = CASES[name], Random(f"{name} {seed}")
    made = case.made()
    chosen = beginning(name, made)
    given = values(made, seed)
    wanted, before = meaning(made, given), compute(made, case.target, given)
    tried = 0
    for _ in range(600):
        part = rng.choice(sorted(chosen.schedules))
        asked = {part: drawn(chosen.schedules[part], rng, rng.randint(1, 3))}
        if lowered(made, case.target, asked) is None:
            continue
        found = compute(made, case.target, given, asked)
        for got, want, same in zip(found, wanted, before, strict=True):
            if case.exact:
                np.testing.assert_array_equal(got, same, err_msg=str(asked))
            bound = TOLERANCE.get(want.dtype.name, 0.0)  # integers are the same
            scale = float(np.abs(want).max(initial=1))
            np.testing.assert_allclose(
                got, want, rtol=bound, atol=bound * scale, err_msg=str(asked)
            )
        tried += 1
        if tried == case.schedules:
            return
    assert tried, "no schedule that was drawn fits"


def beginning(name: str, made: Group) -> LoweredGroup:
    """A case lowered as is chosen, or by what it says in its place."""
    case = CASES[name]
    asked = {"main": from_data(case.instead, TEMPLATES)} if case.instead else None
    found = lowered(made, case.target, asked)
    assert found is not None and found.schedules
    return found


def unheeded(template: str) -> set[Field]:
    """The fields of a template that change no kernel: each is changed alone beside what was chosen,
    beside what cases say and beside some schedules that are drawn.
    """
    left = set(every_field(TEMPLATES[template]))
    for name, case in CASES.items():
        made = case.made()
        if template not in case.templates.split():
            continue
        for part, schedule in beginning(name, made).schedules.items():
            if schedule.template == template:
                for start in starts(name, schedule):
                    heeded(made, case.target, part, start, left)
    return left


def starts(name: str, schedule: Schedule) -> Iterator[Schedule]:
    yield schedule
    data = to_data(schedule)
    for more in CASES[name].starts:
        if set(more) <= set(data):  # else they are of another part
            yield from_data({**data, **more}, TEMPLATES)
    rng = Random(name)
    yield from (drawn(schedule, rng, changes) for changes in (1, 1, 2, 2, 3))


def heeded(made: Group, target: Target, part: str, start: Schedule, left: set[Field]) -> None:
    """Takes those fields away of which one alone changes the kernels beside a schedule."""
    beside = lowered(made, target, {part: start}) if left else None
    if beside is None:
        return
    for field, other in neighbours(start, frozenset(left)):
        if field in left:
            again = lowered(made, target, {part: other})
            if again is not None and text(again) != text(beside):
                left.discard(field)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.sampled(12)
def test_every_field_changes_some_kernel(template: str) -> None:
    assert unheeded(template) == set()


def test_a_field_that_is_not_heeded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InnerProduct, "_stretch", partialmethod(_one_vector, InnerProduct._stretch))
    assert unheeded("inner_product") == {("unroll",)}


def _one_vector(self: InnerProduct, stretch: Callable[..., Any], *given: Any) -> Any:
    """The emitter with a fault: it takes one vector at a time, whatever its schedule says."""
    return stretch(self, *given[:-1], 1)


def test_a_field_that_is_misused_gives_wrong_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(builder: object, start: object, extent: int, size: int) -> int:
        return size // 2

    monkeypatch.setattr(elementwise, "piece", short)
    with pytest.raises((AssertionError, KernelFault)):
        for seed in range(20):
            test_any_schedule_computes_the_same("chain", seed)
