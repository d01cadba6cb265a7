"""What the quick call assumes of arrays is looked at before it is used; where it is not so,
programs are called the other way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from cpu_programs import loaded, machine
from test_cpu_fastcall import A, B, two_outputs

from xlac_cpu.run import fastcall, numpy_layout

pytestmark = pytest.mark.skipif(
    not fastcall.supported(), reason="this interpreter is called through ctypes"
)


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    for asked in (numpy_layout.as_assumed, fastcall.supported):
        asked.cache_clear()
    yield
    for asked in (numpy_layout.as_assumed, fastcall.supported):
        asked.cache_clear()


@pytest.mark.parametrize("field", numpy_layout.FIELDS)
def test_a_field_at_another_place_is_noticed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No place but the assumed one passes, and none ends the process."""
    assert numpy_layout.as_assumed()
    right = numpy_layout.FIELDS[field]
    for other in set(range(0, np.ndarray.__basicsize__ - 8, 8)) - {right}:
        monkeypatch.setitem(numpy_layout.FIELDS, field, other)
        numpy_layout.as_assumed.cache_clear()
        assert not numpy_layout.as_assumed(), f"{field} at {other}"


@pytest.mark.parametrize("place", ["VERSION", "ARRAY_TYPE"])
def test_another_table_of_functions_is_noticed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = (ctypes.c_void_p * len(numpy_layout.c_functions()))(*numpy_layout.c_functions())
    kind = ctypes.CFUNCTYPE(ctypes.c_uint)
    older = kind(lambda: 0x03000000)
    table[getattr(numpy_layout, place)] = ctypes.cast(older, ctypes.c_void_p)
    monkeypatch.setattr(numpy_layout, "c_functions", lambda: table)
    assert not numpy_layout.as_assumed()


def test_another_layout_is_called_through_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(numpy_layout.FIELDS, "data", 72)
    model = loaded(two_outputs(), machine())
    assert model.fast is None
    outputs = {name: np.empty((4, 16), np.float32) for name in ("s", "p")}
    model.run({"a": A, "b": B}, outputs)
    np.testing.assert_array_equal(outputs["s"], A + B)
    np.testing.assert_array_equal(outputs["p"], A * B)
