"""Limits inside the stages: one whose time is over ends after little more work, not where the next
begins.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Any

import pytest

from xlac.codegen import kernel_dedup
from xlac.codegen.cpu import elementwise, elementwise_choice
from xlac.driver import Lowered, lower
from xlac.fusion import horizontal_fusion, partition
from xlac.fusion.consumer_fusion import ConsumerFusion
from xlac.fusion.producer_fusion import ProducerFusion
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.memory import arena
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.source import LimitError
from xlac_sdk.support import limits
from xlac_sdk.target import Request

MANY = 100
"""Groups, or pieces of a concatenation: what work is small against."""


@cache
def groups() -> Model:
    """Rows of many lengths, summed, and others by themselves, some of which are joined: groups of
    which no two are alike.
    """
    rows = [Node.of(Param(f"x{n}", Type(DType.F32, (3, n + 2)))) for n in range(MANY)]
    sums = [build.exp(build.reduce(row, "add", 1)) for row in rows]
    others = [Node.of(Param(f"z{n}", Type(DType.F32, (7 * n + 1,)))) for n in range(MANY)]
    results = {f"y{n}": made for n, made in enumerate([*sums, *map(build.exp, others)])}
    return Model(Graph("groups", (*rows, *others), results), {})


@cache
def pieces() -> Model:
    """One concatenation of many pieces."""
    x = Node.of(Param("x", Type(DType.F32, (MANY, 8))))
    rows = [
        build.mul(build.slice_(x, (n, 0), (n + 1, 8)), build.constant(n + 0.5, DType.F32))
        for n in range(MANY)
    ]
    return Model(Graph("pieces", (x,), {"y": build.concat(rows, 0)}), {})


@cache
def lowered(target: str) -> Lowered:
    return lower(groups(), find(target).target(Request(arch="sm_90a" if target == "cuda" else "")))


class Late:
    """Time that is over once the work of a stage, a call of a function, has begun; counts what is
    done of that work.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Any, name: str) -> None:
        self.calls = 0
        plain = getattr(home, name)

        def counted(*given: Any, **named: Any) -> Any:
            self.calls += 1
            return plain(*given, **named)

        monkeypatch.setattr(home, name, counted)
        monkeypatch.setattr(limits.time, "monotonic", lambda: 100.0 if self.calls else 0.0)

    def ends(self, most: int, work: Any) -> None:
        """The work, of which no more than so many calls are done."""
        with pytest.raises(LimitError, match="XL4031"), limits.within(seconds=50):
            work()
        assert 0 < self.calls <= most


FUSION: tuple[tuple[Any, str], ...] = (
    (ConsumerFusion, "_visit"),
    (ProducerFusion, "_want"),
    (horizontal_fusion, "_only_reshapes"),
    (partition, "_group"),
)


@pytest.mark.parametrize(("home", "name"), FUSION, ids=[name for _, name in FUSION])
def test_fusion_ends_inside(home: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late(monkeypatch, home, name)
    target = find("cpu").target(Request())
    late.ends(limits.OFTEN, lambda: lower(groups(), target))


def test_lowering_ends_with_the_group_that_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late(monkeypatch, kernel_dedup, "lower")
    target = find("cpu").target(Request())
    late.ends(1, lambda: lower(groups(), target))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("home", "name"),
    [(Builder, "emit"), (elementwise_choice, "_nest"), (elementwise, "store")],
    ids=["statement", "nest", "store"],
)
def test_the_lowering_of_a_long_concatenation_ends_inside(
    target: str, home: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch, home, name)
    facts = find(target).target(Request())
    late.ends(limits.OFTEN, lambda: lower(pieces(), facts))


@pytest.mark.parametrize("name", ["_round", "_fit"])
def test_the_memory_plan_ends_inside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [arena.LiveRange(n % 7 * 100, n, n + 20 + n % 13) for n in range(5 * MANY)]
    late = Late(monkeypatch, arena, name)
    late.ends(
        5 * MANY + limits.OFTEN if name == "_round" else limits.OFTEN, lambda: arena.pack(spans)
    )


@pytest.mark.parametrize(
    ("target", "home", "name", "most"),
    [
        ("cpu", "xlac_sdk.lowering.legalize._Legalizer", "run", 1),
        ("cpu", "xlac_cpu.emit.function", "write", 1),
        ("cpu", "xlac_cpu.emit.driver._Body", "launch", 64),
        ("c", "xlac_sdk.lowering.legalize._Legalizer", "run", 1),
        ("c", "xlac_sdk.emit.ctext._StatementWriter", "block", 10),
        ("c", "xlac_c.steps.Steps", "begins", 64),
        ("reference", "xlac_sdk.kernel_ir.verify._Verifier", "run", 1),
        ("cuda", "xlac_sdk.lowering.legalize._Legalizer", "run", 1),
        ("cuda", "xlac_sdk.emit.ctext._StatementWriter", "block", 40),
    ],
)
@pytest.mark.sampled(4)
def test_emission_ends_with_the_kernel_that_is_begun(
    target: str, home: str, name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lowered(target)
    assert len(made.program.kernels) >= MANY / 2
    late = Late(monkeypatch, pkgutil.resolve_name(home), name)
    late.ends(most, lambda: find(target).emit(made.program, made.target))
