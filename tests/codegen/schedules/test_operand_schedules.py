"""How operands come to a kernel is scheduled: copies are asked for and left out, and refused where
they cannot be.
"""

from __future__ import annotations

from typing import Any

import pytest
from contraction_harness import group
from gpu_schedule_cases import COPIES
from operand_schedule_cases import OPERAND_CASES
from schedule_draws import Parts, lowered, text, x

from xlac.codegen.gpu.core.instructions import COPY, WAIT
from xlac.codegen.lower import lower
from xlac.codegen.schedules.conv import ConvAlgorithmSchedule, algorithm_of
from xlac.codegen.schedules.decisions import Decisions, PartMisfit
from xlac.codegen.schedules.gpu.attention import FlashAttentionSchedule
from xlac.codegen.schedules.operands import (
    ColumnLoopSchedule,
    ConvInputSchedule,
    DotOperandsSchedule,
    OperandCopy,
)
from xlac.codegen.schedules.schedule import from_data, to_data
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.fusion.group import Group, Kind
from xlac.ops import build
from xlac_sdk.dtypes import DType

COPIED = DotOperandsSchedule(OperandCopy(DType.F32, (1, 0)))


def kernels(name: str, asked: Parts) -> list[str]:
    """The kernels of a case without the group's own name."""
    found = lowered(OPERAND_CASES[name].made(), OPERAND_CASES[name].target, asked)
    assert found is not None
    return [launch.kernel.name.removeprefix("kernel") for launch in found.launches]


def test_a_copy_is_asked_for_or_left_out() -> None:
    assert kernels("operands_half", {}) == ["_left", ""]
    assert kernels("operands_half", {"operands": DotOperandsSchedule(None)}) == [""]
    assert kernels("operands_left", {}) == [""]
    assert kernels("operands_left", {"operands": COPIED}) == ["_left", ""]


def test_padding_is_copied_or_masked() -> None:
    copied = ConvInputSchedule(phases=False, order=(0, 1, 2, 3))
    assert kernels("input_gpu_channels", {}) == [""]
    assert kernels("input_gpu_channels", {"input": copied}) == ["_pad", ""]
    assert kernels("input_spread", {})[0] == "_pad"
    assert (
        len(kernels("input_spread", {})) == 5
        and len(kernels("input_spread", {"input": copied})) == 2
    )


@pytest.mark.parametrize("name", [name for name in OPERAND_CASES if name.startswith("algorithm")])
def test_a_convolution_that_is_computed_as_a_contraction_is_chosen_or_asked_for(name: str) -> None:
    made, target = OPERAND_CASES[name].made(), OPERAND_CASES[name].target
    chosen = lowered(made, target)
    asked = lowered(made, target, {"algorithm": ConvAlgorithmSchedule("contraction")})
    assert chosen is not None and asked is not None
    own = chosen.schedules["algorithm"]
    assert isinstance(own, ConvAlgorithmSchedule)
    assert algorithm_of(chosen.schedules["main"]) == own.algorithm
    assert algorithm_of(asked.schedules["main"]) == "contraction"
    kernel = {"main": asked.schedules["main"]}  # says the algorithm too
    implied = lowered(made, target, kernel)
    assert implied is not None and text(implied) == text(asked)


def test_columns_are_a_loop_that_is_asked_for() -> None:
    made, target = OPERAND_CASES["columns_dot"].made(), OPERAND_CASES["columns_dot"].target
    chosen = lowered(made, target)
    asked = lowered(made, target, {"columns": ColumnLoopSchedule(0)})
    assert chosen is not None and chosen.schedules["columns"] == ColumnLoopSchedule(1)
    assert asked is not None and text(asked) != text(chosen)


def dot_with(left: object) -> dict[str, Any]:
    return {"template": "dot_operands", "left": left}


def conv_with(order: object, phases: bool = False) -> dict[str, Any]:
    return {"template": "conv_input", "phases": phases, "order": order}


MISFITS: list[tuple[str, dict[str, Any], tuple[str | int, ...], str]] = [
    (
        "operands_left",
        dot_with({"dtype": "f32", "order": [0, 2]}),
        ("left", "order"),
        "each of the 2",
    ),
    (
        "operands_left",
        dot_with({"dtype": "f16", "order": [1, 0]}),
        ("left", "dtype"),
        "must be f32",
    ),
    ("operands_left", dot_with({"dtype": "f32", "order": [0, 1]}), ("left",), "it must be null"),
    ("input_padded", conv_with(None), ("order",), "windows leave the input"),
    ("input_padded", conv_with([0, 1, 2]), ("order",), "each of the 4 axes"),
    ("input_padded", conv_with([0, 1, 2, 3], True), ("phases",), "not dilated"),
    ("input_spread", conv_with(None), ("order",), "convolved in phases"),
    ("input_channels", conv_with([0, 3, 1, 2]), ("order",), "axis 3 must be contiguous"),
    (
        "algorithm_last",
        {"template": "conv_algorithm", "algorithm": "winograd"},
        ("algorithm",),
        "contraction, depthwise",
    ),
    ("columns_dot", {"template": "column_loop", "columns": 2}, ("columns",), "loops 0 to 1"),
]


@pytest.mark.parametrize(("name", "asked", "path", "said"), MISFITS)
def test_what_does_not_fit_is_said_with_its_field(
    name: str, asked: dict[str, Any], path: tuple[str | int, ...], said: str
) -> None:
    case, part = OPERAND_CASES[name], name.partition("_")[0]
    schedules = {part: from_data(asked, TEMPLATES)}
    with pytest.raises(PartMisfit, match=said) as error:
        lower(case.made(), case.target, "kernel", Decisions("kernel", schedules))
    assert (error.value.part, error.value.misfit.path) == (part, path)


def upright_attention() -> Group:
    """Attention whose keys and values are columns in memory, which no 16 bytes are copied of."""
    k, v = (build.transpose(x(name, 1, 1, 16, 64), (0, 1, 3, 2)) for name in "kv")
    return group(Kind.ATTENTION, build.apply1("attention", x("q", 1, 2, 32, 16), k, v))


def test_no_copy_of_queries_is_left_without_a_wait() -> None:
    """The loop over keys waits for copies of theirs only: alone, queries are not copied so."""
    found = lowered(upright_attention(), COPIES)
    assert found is not None
    assert (COPY in text(found)) is (WAIT in text(found)) is False
    main = found.schedules["main"]
    assert isinstance(main, FlashAttentionSchedule) and main.staging.queries.lanes == 4
    data = to_data(main)
    data["staging"]["queries"]["asynchronous"] = True
    asked = {"main": from_data(data, TEMPLATES)}
    with pytest.raises(PartMisfit, match="only if keys or values are") as error:
        lower(upright_attention(), COPIES, "kernel", Decisions("kernel", asked))
    assert error.value.misfit.path == ("staging", "queries", "asynchronous")
