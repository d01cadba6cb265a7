"""Schedules of the kinds of a CPU: written and read back, and refused with the field and the
reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kind_schedule_cases import KIND_CASES
from schedule_draws import lowered

from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions, PartMisfit
from xlac.codegen.schedules.document import read, write
from xlac.codegen.schedules.schedule import Schedule, from_data, to_data
from xlac.codegen.schedules.templates import TEMPLATES


def chosen(name: str) -> dict[str, Schedule]:
    """The schedules of a case by part."""
    case = KIND_CASES[name]
    asked = {"main": from_data(case.instead, TEMPLATES)} if case.instead else None
    found = lowered(case.made(), case.target, asked)
    assert found is not None
    return dict(found.schedules)


@pytest.mark.parametrize("name", KIND_CASES)
@pytest.mark.sampled(2)
def test_what_is_written_is_read_back(name: str, tmp_path: Path) -> None:
    made = {"group": chosen(name)}
    file = tmp_path / "schedules.yaml"
    file.write_text(write(made, {"group": name}, "All kinds"))
    assert read(file).groups == made
    assert lowered(KIND_CASES[name].made(), KIND_CASES[name].target, made["group"]) is not None


SHARED = {"loops": 1, "grain": 1}
ORDERED = {"template": "ordered_scatter", "lanes": 1, "piece": 0, "threads": {**SHARED, "loops": 0}}
MISFITS: list[tuple[str, dict[str, Any], tuple[str | int, ...], str]] = [
    ("update", {"lanes": 3}, ("lanes",), "a power of two, at most 32"),
    ("update", {"threads": {"loops": 4, "grain": 1}}, ("threads", "loops"), "there are 3 loops"),
    ("random_rows", {"template": "random_planes"}, ("template",), "are neighbours in this"),
    ("random_planes", {"template": "random_rows", "batch": 1}, ("template",), "are a row apart"),
    ("cumulative", {"lanes": 128}, ("lanes",), "a power of two, at most 64"),
    ("lu", {"lanes": 128}, ("lanes",), "a power of two, at most 64"),
    ("lu", {"threads": {"loops": 2, "grain": 1}}, ("threads", "loops"), "there are 1 loops"),
    ("substitution", {"rows": 17}, ("rows",), "at most 16, which are unrolled"),
    ("substitution", {"threads": {"loops": 3, "grain": 1}}, ("threads", "loops"), "are 2 loops"),
    ("pooling", {"unroll": 64}, ("unroll",), "at most 32"),
    (
        "choice_last",
        {"threads": {"loops": 3, "grain": 1}},
        ("threads", "loops"),
        "there are 2 loops",
    ),
    ("choice_first", {"lanes": 32}, ("lanes",), "22 windows of a row lie inside"),
    ("choice_first", {"piece": 2}, ("piece",), "are not split into pieces"),
    ("scatter", {"piece": 0}, ("piece",), "vectors need pieces"),
    ("scatter", {"threads": {"loops": 2, "grain": 1}}, ("threads", "loops"), "there are 1 loops"),
    ("scatter_sliding", {"piece": 2}, ("piece",), "windows of different updates overlap"),
    ("scatter", {"template": "counted_scatter"}, ("template",), "not sums of floats"),
    (
        "scatter_unique",
        {"piece": 1, "lanes": 4, "threads": {"loops": 2, "grain": 1}},
        ("threads", "loops"),
        "there are 1 loops",
    ),
    ("sort_selected", {"groups": 2}, ("groups",), "at least 3"),
    ("sort_selected", {"lanes": 3}, ("lanes",), "a power of two"),
    ("scatter_compensated", ORDERED, ("template",), "need compensation"),
    ("scatter_compensated", {"sweep_lanes": 3}, ("sweep_lanes",), "a power of two"),
    (
        "scatter_sorted",
        {"places": {"piece": 8, "threads": {"loops": 2, "grain": 1}}},
        ("places", "threads", "loops"),
        "there are 1 loops",
    ),
    ("attention", {"keys": 5}, ("keys",), "a multiple of the"),
    ("attention", {"score_vectors": 3}, ("score_vectors",), "a power of two"),
    ("attention", {"value_lanes": 16}, ("value_lanes",), "at most 8 for these widths"),
    ("attention", {"tiles": 99}, ("tiles",), "22 queries have"),
    ("attention_gradient", {"query_lanes": 16}, ("query_lanes",), "at most 8 for these widths"),
    ("depthwise_nchw", {"rows": 9}, ("rows",), "there are 6 rows"),
    ("depthwise_nhwc", {"pixels": 99}, ("pixels",), "a row has 9"),
    ("depthwise_nhwc_sse", {"vectors": 9, "pixels": 2}, ("pixels",), "takes 54 registers, of 16"),
    ("depthwise_nhwc", {"words": True}, ("words",), "no four products of bytes"),
    ("winograd", {"chunk": 3}, ("chunk",), "it must divide 8 channels"),
    ("winograd", {"results": 3}, ("results",), "it must be 2 or 4 at this precision"),
    ("winograd_guarded", {"results": 4}, ("results",), "it must be 2 at this precision"),
    ("winograd", {"block": 9}, ("block",), "there are 2 register tiles"),
    ("winograd_weights", {"lanes": 16}, ("lanes",), "a power of two, at most 8"),
    (
        "winograd_weights",
        {"tile_threads": {"loops": 5, "grain": 1}},
        ("tile_threads", "loops"),
        "4 loops",
    ),
    ("winograd_weights", {"threads": {**SHARED, "loops": 2}}, ("threads", "loops"), "1 loops"),
    (
        "winograd",
        {"input_threads": {"loops": 4, "grain": 1}},
        ("input_threads", "loops"),
        "3 loops",
    ),
]


@pytest.mark.parametrize(
    ("name", "changes", "path", "said"), MISFITS, ids=[f"{m[0]} {m[2]} {m[3]}" for m in MISFITS]
)
def test_what_does_not_fit_is_said_with_its_field(
    name: str, changes: dict[str, Any], path: tuple[str | int, ...], said: str
) -> None:
    data = {**to_data(chosen(name)["main"]), **changes}
    if "template" in changes:  # another template, with those of its fields that are there
        fields = {"template", *TEMPLATES[changes["template"]].__dataclass_fields__}
        data = {field: value for field, value in data.items() if field in fields}
    case, asked = KIND_CASES[name], from_data(data, TEMPLATES)
    with pytest.raises(PartMisfit, match=said) as error:
        lower(case.made(), case.target, "kernel", Decisions("kernel", {"main": asked}))
    assert (error.value.part, error.value.misfit.path) == ("main", path)
