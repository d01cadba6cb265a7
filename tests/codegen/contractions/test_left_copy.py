"""Left operands whose sums cross lines that no cache keeps are copied, rows along sums."""

from __future__ import annotations

import pytest
from contraction_harness import TARGETS, agree, cpu, group, param

from xlac.codegen.cpu.gemm import left_copy
from xlac.codegen.lower import lower
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


def product(
    left: Node, right: tuple[int, ...], sums: int = 0, batch: int = 0, kind: str = "input"
) -> Node:
    """A product that sums along axis `sums` of the left operand and axis `batch` of the right."""
    op = Dot(
        contract_lhs=(sums,),
        contract_rhs=(batch,),
        batch_lhs=tuple(range(batch)),
        batch_rhs=tuple(range(batch)),
    )
    return Node.of(op, left, param("b", Type(left.type.dtype, right), kind))


def x(*shape: int, dtype: DType = DType.F32, kind: str = "input") -> Node:
    return param("a", Type(dtype, shape), kind)


CASES = {
    "a matrix": lambda: product(x(23, 9), (23, 35)),
    "of doubles": lambda: product(x(21, 8, dtype=DType.F64), (21, 33)),
    "turned in the group": lambda: product(build.transpose(x(22, 9), (1, 0)), (22, 40), 1),
    "a batch": lambda: product(x(3, 19, 7), (3, 19, 32), 1, 1),
    "two axes of rows": lambda: product(x(5, 18, 6), (18, 34), 1),
    "a part": lambda: product(build.slice_(x(30, 11), (2, 1), (28, 10), (2, 1)), (13, 32)),
}


def is_copied(node: Node, target: Target) -> bool:
    names = [launch.kernel.name for launch in lower(group(Kind.DOT, node), target, "k").launches]
    return any(name.startswith("k_left") for name in names)


@pytest.mark.parametrize("name", CASES)
def test_what_is_copied_is_what_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("TALL", "WIDE"):
        monkeypatch.setattr(left_copy, limit, 6)
    monkeypatch.setattr(left_copy, "lines_held", lambda *_: 6)
    node = CASES[name]()
    for target in (TARGETS["avx512"], TARGETS["avx2"], TARGETS["sse"], cpu(2)):
        near = target.with_facts(line_bytes=16)
        assert is_copied(node, near)
        agree(group(Kind.DOT, node, build.maximum(node, 0.0)), near)


def test_what_is_copied() -> None:
    target = TARGETS["avx2"]
    assert is_copied(product(x(512, 96), (512, 512)), target)
    assert is_copied(
        product(x(64, 1024), (64, 512)), target
    )  # whose lines share a set of the cache
    for other in (
        product(x(512, 96, kind="weight"), (512, 512)),  # packed when the model is built
        product(x(96, 512), (512, 512), 1),  # steps are neighbours
        product(x(512, 96), (512, 64)),  # read for few columns
        product(x(64, 96), (64, 512)),  # short sums: the cache holds their lines
        product(x(512, 16), (512, 512)),  # few rows: a line holds them
    ):
        assert not is_copied(other, target)
    for small in (TARGETS["scalar"], TARGETS["size"]):
        assert not is_copied(product(x(512, 96), (512, 512)), small)
