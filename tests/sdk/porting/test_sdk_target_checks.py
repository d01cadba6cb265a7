"""Facts of a wrong type, or that cannot be, are refused with the field's name."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

WRONG: tuple[tuple[str, Any, str], ...] = (
    ("threads", 2.0, "of type int, not float"),
    ("threads", True, "of type int, not bool"),
    ("vector_bytes", "32", "of type int, not str"),
    ("processors", np.int64(4), "of type int, not int64"),
    ("masked", 1, "of type bool, not int"),
    ("dtypes", {DType.F32}, "of type frozenset, not set"),
    ("primitives", frozenset(["add"]), "elements of type Primitive, not 'add'"),
    ("lacks", frozenset([Primitive.ADD]), "elements of type tuple"),
    ("hardware", {"l1_bytes": 1}, "of type MachineFacts, not dict"),
    ("most_blocks", -1, "at least 0, not -1"),
    ("copy_alignment", 3, "a power of two of at least 1, not 3"),
)


@pytest.mark.parametrize(("name", "value", "why"), WRONG, ids=lambda v: str(v)[:20])
def test_a_wrong_fact_is_refused_by_its_name(name: str, value: Any, why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"target 'odd': {name} .*{why}"):
        replace(Target("odd"), **{name: value})


def test_no_field_takes_what_it_is_not() -> None:
    for field in fields(Target):
        with pytest.raises(TypeError, match=f"{field.name} is of type"):
            replace(Target("odd"), **{field.name: 1.5})
