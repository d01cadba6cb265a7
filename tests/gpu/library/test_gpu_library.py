"""Dot products that a target's library computes: which groups become one call, which do not and
why, and that the call means what the group does.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_harness import agree, lowered, param, run
from library_groups import EXACT, REFUSED, ROUNDED
from library_products import BF16, F16, F32, TARGET, bias, linear, note, only_call, product, x

from xlac.debug.explain.story import tell
from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Work
from xlac_sdk.programs import portable
from xlac_sdk.programs.program import Call, Launch
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import Origin, VerifyError
from xlac_sdk.target import Target


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_every_type_and_order(dtype: DType, turned: tuple[bool, bool]) -> None:
    left = (
        build.transpose(param("x", (9, 7), dtype), (1, 0))
        if turned[0]
        else param("x", (7, 9), dtype)
    )
    right = (
        build.transpose(param("w", (11, 9), dtype), (1, 0))
        if turned[1]
        else param("w", (9, 11), dtype)
    )
    call = only_call(agree(build.dot(left, right, ((1,), (0,))), target=TARGET))
    product = call.attributes["product"]
    assert (product.count, product.rows, product.columns, product.depth) == (1, 7, 11, 9)
    assert (product.left.rows == 1, product.right.rows == 1) == turned
    assert call.work is not None and call.work.flops == 2 * 7 * 11 * 9


@pytest.mark.parametrize("what", EXACT)
def test_a_call_computes_all_that_follows(what: str) -> None:
    only_call(agree(EXACT[what](), target=TARGET))


@pytest.mark.parametrize("what", ROUNDED)
def test_other_rounding_takes_the_models_permission(what: str) -> None:
    only_call(agree(ROUNDED[what](), target=TARGET, precision="fast"))
    assert "precision: fast" in note(ROUNDED[what]())
    assert all(isinstance(step, Launch) for step in agree(ROUNDED[what](), target=TARGET).steps)


def test_a_bias_that_is_a_weight_of_halves() -> None:
    """It is not widened ahead of time: the library takes it as it is."""
    node = linear(
        x(8, 6, dtype=BF16), x(10, 6, dtype=BF16, name="w"), build.param("b", BF16, (10,), "weight")
    )
    assert only_call(lowered(node, target=TARGET).program).attributes["product"].biased


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_library_cannot_say_is_generated(what: str) -> None:
    made, why = REFUSED[what]
    assert why in note(made(), "fast")
    assert not any(
        isinstance(step, Call) for step in agree(made(), target=TARGET, precision="fast").steps
    )


def test_sizes_may_be_open() -> None:
    rows = symbol("rows", 0, 64, 16)
    node = build.add(linear(x(rows, 6), x(10, 6, name="w"), bias()), param("c", (rows, 10)))
    for size in (0, 1, 16, 64):
        program = agree(node, target=TARGET, sizes={"rows": size})
    assert only_call(program).attributes["product"].rows == rows


def test_nothing_to_sum_is_generated() -> None:
    depth = symbol("depth", 0, 64, 16)
    node = build.dot(x(8, depth), x(depth, 10, name="w"), ((1,), (0,)))
    assert "products in a sum may be 0" in note(node)
    agree(node, target=TARGET, sizes={"depth": 0})


def test_not_a_number_and_infinity_pass_through() -> None:
    feeds = {
        "x": np.array(
            [[np.nan, 1.0], [np.inf, 1.0], [-np.inf, 0.0], [1.0, 2.0]] * 2, np.float32
        ).repeat(3, 1),
        "w": np.ones((6, 10), np.float32),
        "b": np.full(10, np.inf, np.float32),
    }
    node = build.add(product(), bias())
    program = lowered(node, target=TARGET).program
    with np.errstate(invalid="ignore"):
        expected = feeds["x"] @ feeds["w"] + feeds["b"]
    assert np.isnan(expected).any() and np.isinf(expected).any()
    np.testing.assert_array_equal(run(program, feeds)["o0"], expected)


def test_the_result_takes_the_place_of_what_is_added() -> None:
    second = build.dot(x(8, 7, name="u"), x(7, 10, name="v"), ((1,), (0,)))
    program = agree(build.apply1("softmax", build.add(second, product())), target=TARGET)
    _, adds = (step for step in program.steps if isinstance(step, Call))
    assert adds.attributes["product"].addend is not None
    assert adds.arguments[2] == adds.arguments[3]


def test_the_workspace_is_counted_with_other_memory() -> None:
    program = agree(product(), target=TARGET)
    workspace = only_call(program).arguments[-1].slot
    assert workspace.nbytes == 1 << 12 and program.arena_bytes == 1 << 12


def test_equal_groups_make_equal_calls() -> None:
    first = linear(x(8, 10), x(10, 10, name="w"), bias())
    second = linear(first, x(10, 10, name="v"), x(10, name="d"))
    program = agree(second, target=TARGET)
    one, two = (step for step in program.steps if isinstance(step, Call))
    assert one.attributes["product"] == two.attributes["product"]
    assert [a.slot.name for a in one.arguments[:3]] == ["x", "w", "b"]
    assert [a.slot.name for a in two.arguments[1:3]] == ["v", "d"]


def test_calls_count_as_work() -> None:
    work = agree(product(), target=TARGET).work
    assert work == Work(2 * 8 * 6 * 10, 4 * (8 * 6 + 6 * 10 + 8 * 10))


def test_f32_is_rounded_to_tf32_only_where_the_model_lets_it() -> None:
    for precision, tf32 in (("default", False), ("fast", True)):
        call = only_call(lowered(product(), target=TARGET, precision=precision).program)
        assert call.attributes["product"].tf32 is tf32
    assert (
        not only_call(lowered(product(dtype=BF16), target=TARGET, precision="fast").program)
        .attributes["product"]
        .tf32
    )


def test_what_a_target_says_of_products_survives_as_json() -> None:
    told: Any = json.loads(json.dumps(TARGET.to_json()))
    assert Target.from_json(told) == TARGET


def test_programs_with_calls_survive_in_files(tmp_path: Path) -> None:
    program = agree(linear(x(8, 6), x(10, 6, name="w"), bias()), target=TARGET)
    portable.write(tmp_path, program, TARGET)
    again, target = portable.read(tmp_path)
    assert only_call(again).attributes == only_call(program).attributes and target == TARGET


def test_a_call_that_reaches_past_its_memory_is_no_program() -> None:
    program = agree(product(), target=TARGET)
    call = only_call(program)
    wrong = replace(call, shapes=((9, 6), *call.shapes[1:]))
    with pytest.raises(VerifyError, match="reaches elements"):
        verify_program(replace(program, steps=(wrong,)))


def test_explain_tells_what_is_called_and_why_not() -> None:
    def told(output: Node) -> str:
        named = Node(output.op, output.inputs, output.types, Origin("y"))
        made = lowered(named, target=TARGET)
        return tell(made, made.model.graph)

    story = told(build.add(product(), bias()))
    assert (
        "one call of BLAS (add), fused with the compiler (dot)" in story
        and "1,040 flops, 792 bytes moved" in story
    )
    story = told(build.apply1("sigmoid", product()))
    assert (
        "kernel dot_0" in story
        and "not by a library: BLAS has no epilogue for 'sigmoid' here" in story
    )
