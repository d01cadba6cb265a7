"""Attention that a target's library computes: which becomes one call, which does not and why, and
that the call means what the group does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_harness import LARGE, agree, lowered, param

from xlac.codegen.gpu.core.instructions import COMMIT, COPY, MMA, WAIT
from xlac.fusion.group import Kind
from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.attention import ATTENTION, Attentions
from xlac_sdk.programs import portable
from xlac_sdk.programs.program import Call, Launch, Program

F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
TARGET = replace(
    LARGE,
    instructions=frozenset({*MMA.values(), COPY, COMMIT, WAIT}),
    attentions=frozenset(Attentions("DNN", d, 32, 20, 1, 1 << 12) for d in (F16, BF16)),
)
LONG = 24  # queries: more than a few


def attention(
    *,
    dtype: DType = BF16,
    many: int = 2,
    few: int = 0,
    time: Any = LONG,
    keys: Any = 0,
    width: int = 16,
    wide: int = 0,
    mask: tuple[int, ...] = (),
    kind: DType | None = None,
    **given: Any,
) -> Node:
    few, keys, wide = few or many, time if keys == 0 else keys, wide or width
    sides = [(many, time, width), (few, keys, width), (few, keys, wide)]
    operands = [param(name, (1, *shape), dtype) for name, shape in zip("qkv", sides, strict=True)]
    masks = [param("mask", mask, kind or dtype)] if mask else []
    return build.apply1("attention", *operands, *masks, **given)


def packed(heads: int, width: int, dtype: DType = F16) -> Node:
    """One operand of all three: (batch, time, 3 * heads * width)."""
    x, whole = param("x", (2, LONG, 3 * heads * width), dtype), heads * width
    parts = (
        build.apply1("slice", x, starts=[0, 0, k * whole], stops=[2, LONG, (k + 1) * whole])
        for k in range(3)
    )
    return build.apply1("attention", *parts, heads=heads, causal=True)


def only(program: Program) -> Any:
    (call,) = program.steps
    assert isinstance(call, Call) and call.name == ATTENTION
    return call.attributes[ATTENTION]


CALLED: dict[str, Callable[[], Node]] = {
    "plain": attention,
    "f16, causal": lambda: attention(dtype=F16, causal=True),
    "more keys, causal": lambda: attention(keys=31, causal=True),
    "shared keys": lambda: attention(many=4, few=2, time=21, causal=True, scale=0.5),
    "other widths": lambda: attention(width=24, wide=8),
    "heads side by side": lambda: packed(2, 16),
    "heads put together": lambda: build.reshape(
        build.transpose(attention(dtype=F16), (0, 2, 1, 3)), (1, LONG, 32)
    ),
}


@pytest.mark.parametrize("what", CALLED)
def test_one_call_computes_attention(what: str) -> None:
    only(agree(CALLED[what](), target=TARGET))


@pytest.mark.parametrize("mask", [(1, 1, 1, LONG), (LONG, LONG), (1, 2, LONG, LONG), (2, 1, LONG)])
def test_added_masks_take_the_models_permission(mask: tuple[int, ...]) -> None:
    node = attention(mask=mask, causal=True)
    found = only(agree(node, target=TARGET, precision="fast"))
    assert found.mask.extents == (1,) * (4 - len(mask)) + mask
    assert "precision: fast" in note(node)


def test_masks_that_are_repeated_are_read_once() -> None:
    """For the library their axes have one element."""
    sides = [param(name, (1, 2, LONG, 16), BF16) for name in "qkv"]
    mask = build.broadcast_to(param("mask", (1, 1, 1, LONG), BF16), (1, 2, LONG, LONG))
    found = only(agree(build.apply1("attention", *sides, mask), target=TARGET, precision="fast"))
    assert found.mask.extents == (1, 1, 1, LONG)


def test_repeated_keys_are_generated() -> None:
    q, kv = param("q", (1, 2, LONG, 16), BF16), param("kv", (1, 1, LONG, 16), BF16)
    node = build.apply1(
        "attention", q, build.broadcast_to(kv, (1, 2, LONG, 16)), param("v", (1, 2, LONG, 16), BF16)
    )
    agree(node, target=TARGET)


def note(output: Node, precision: str = "default") -> str:
    made = lowered(output, target=TARGET, precision=precision)
    (group,) = (g for g in made.partition.groups if g.kind is Kind.ATTENTION)
    return made.schedules(group).note


REFUSED: dict[str, tuple[Callable[[], Node], str]] = {
    "a few queries": (lambda: attention(time=8, keys=40), "8 queries share keys"),
    "a mask that chooses": (
        lambda: attention(mask=(LONG, LONG), kind=DType.BOOL),
        "this mask is boolean",
    ),
    "queries that see nothing": (lambda: attention(keys=20, causal=True), "see no key"),
    "wide": (lambda: attention(width=40), "multiple of 8, up to 32"),
    "odd widths": (lambda: attention(width=12), "multiple of 8, up to 32"),
    "more to do": (
        lambda: build.mul(attention(), param("s", (1, 2, LONG, 16), BF16)),
        "no epilogue for attention",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.sampled(16)
def test_what_the_library_cannot_say_is_generated(what: str) -> None:
    made, why = REFUSED[what]
    assert why in note(made(), "fast")
    assert all(
        isinstance(step, Launch) for step in agree(made(), target=TARGET, precision="fast").steps
    )


def test_times_may_be_open() -> None:
    time = symbol("time", 1, 64, 32)
    for size in (32, 1, 64):
        program = agree(attention(time=time, causal=True), target=TARGET, sizes={"time": size})
    assert only(program).queries.extents == (1, 2, time, 16)


def test_attention_survives_in_files(tmp_path: Path) -> None:
    program = lowered(CALLED["shared keys"](), target=TARGET).program
    portable.write(tmp_path, program, TARGET)
    read, target = portable.read(tmp_path)
    assert target == TARGET and only(read) == only(program)
