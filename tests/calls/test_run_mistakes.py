"""What `run` is given in place of inputs and outputs by name, and objects that are no arrays: an
error of ours in every way to call, whatever they do when they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from ways_to_call import Way, X, Y, torch_way

import xlac
from xlac_sdk.source import SourceError


def rooms() -> dict[str, Any]:
    return {"sum": np.empty(4, np.float32), "product": np.empty(4, np.float32)}


def frozen() -> Any:
    made = np.empty(4, np.float32)
    made.flags.writeable = False
    return made


def overlapping() -> Any:
    return np.lib.stride_tricks.as_strided(np.empty(6, np.float32), (2, 4), (8, 4))


class Raising:
    """An array that cannot be had."""

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise ZeroDivisionError("of its own")


class RaisingExport:
    """The same by DLPack."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise KeyError("of its own")

    def __dlpack__(self, **options: Any) -> Any:
        raise ZeroDivisionError("of its own")


class NoArray:
    def __array__(self, *args: Any, **options: Any) -> Any:
        return "no"


def itself() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def nested(layout: str) -> Any:
    """A tensor of PyTorch whose rows may have different lengths."""
    torch = pytest.importorskip("torch")
    return torch.nested.nested_tensor([torch.ones(4)], layout=getattr(torch, layout))


GIVEN: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a list": lambda: [X, Y],
    "a tuple": lambda: (X, Y),
    "an array": lambda: X,
    "text": lambda: "xy",
    "a generator": lambda: (array for array in (X, Y)),
    "a number": lambda: 3,
    "None for a name": lambda: {None: X, "y": Y},
    "numbers for names": lambda: {0: X, 1: Y},
    "too few": lambda: {"x": X},
    "too many": lambda: {"x": X, "y": Y, "z": Y},
}
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "abcd",
    "bytes": lambda: b"1234567890123456",
    "a generator": lambda: (float(n) for n in range(4)),
    "a dict": lambda: {"a": 1.0},
    "a set": lambda: {1.0, 2.0},
    "a type": lambda: float,
    "a module": lambda: np,
    "None in a list": lambda: [1, 2, None, 3],
    "decimals": lambda: [Decimal(1)] * 4,
    "a list in itself": itself,
    "objects": lambda: np.array([1, 2, 3, None], object),
    "an array of text": lambda: np.array(["a"] * 4),
    "times": lambda: np.array([1, 2, 3, 4], "datetime64[s]"),
    "records": lambda: np.zeros(4, [("a", "f4")]),
    "other bytes": lambda: X.astype(">f4"),
    "raising": Raising,
    "raising DLPack": RaisingExport,
    "no array": NoArray,
    "sparse": lambda: pytest.importorskip("torch").ones(4).to_sparse(),
    "compressed": lambda: pytest.importorskip("torch").ones(4, 4).to_sparse_csr(),
    "nested": lambda: nested("strided"),
    "jagged": lambda: nested("jagged"),
}
PYTREES = {"None", "a dict", "None in a list"}
ROOMS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a list": lambda: list(rooms().values()),
    "an array": lambda: np.empty(4, np.float32),
    "text": lambda: "sum",
    "a number": lambda: 1,
    "a generator": lambda: (room for room in rooms().values()),
    "None for a room": lambda: {**rooms(), "sum": None},
    "a list for a room": lambda: {**rooms(), "sum": [0] * 4},
    "a number for a room": lambda: {**rooms(), "sum": np.float32(1)},
    "read-only": lambda: {**rooms(), "sum": frozen()},
    "overlapping": lambda: dict(zip(rooms(), overlapping(), strict=True)),
    "one": lambda: dict.fromkeys(rooms(), np.empty(4, np.float32)),
    "an input": lambda: {**rooms(), "sum": X},
    "strided": lambda: {**rooms(), "sum": np.empty(8, np.float32)[::2]},
    "other type": lambda: {**rooms(), "sum": np.empty(4)},
    "objects": lambda: {**rooms(), "sum": np.empty(4, object)},
    "shorter": lambda: {**rooms(), "sum": np.empty(3, np.float32)},
    "other rank": lambda: {**rooms(), "sum": np.empty((4, 1), np.float32)},
    "misaligned": lambda: {**rooms(), "sum": np.frombuffer(bytearray(17), "f4", 4, 1)},
    "missing": lambda: {"sum": np.empty(4, np.float32)},
    "one more": lambda: {**rooms(), "z": np.empty(4, np.float32)},
    "None for a name": lambda: {**rooms(), None: np.empty(4, np.float32)},
}


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(SourceError) as error:
        call()
    assert all(one.code[:3] in ("XL6", "XL2") for one in error.value.diagnostics)
    assert "object at 0x" not in str(error.value)


@pytest.mark.parametrize("what", GIVEN)
@pytest.mark.sampled(6)
def test_inputs_that_have_no_names(way: tuple[str, Way], what: str) -> None:
    run = getattr(way[1].call, "run", None)
    if run is not None:
        refused(lambda: run(GIVEN[what](), rooms()))


@pytest.mark.parametrize("what", ["sparse", "compressed", "nested", "jagged"])
def test_tensors_that_are_no_arrays(what: str) -> None:
    way = torch_way()
    refused(lambda: way.call(VALUES[what](), way.given(Y)))


@pytest.mark.parametrize("what", ROOMS)
@pytest.mark.sampled(6)
def test_rooms_that_results_cannot_be_written_to(way: tuple[str, Way], what: str) -> None:
    run, before = getattr(way[1].call, "run", None), X.copy()
    if run is not None:
        refused(lambda: run({"x": X, "y": Y}, ROOMS[what]()))
        assert (before == X).all()


@pytest.mark.parametrize("what", VALUES)
@pytest.mark.sampled(6)
def test_values_that_are_no_arrays(way: tuple[str, Way], what: str) -> None:
    name, call = way[0], way[1].call
    # from_torch takes tensors (tests/pytorch), from_jax every pytree that the function takes
    if name != "from_torch" and not (name == "from_jax" and what in PYTREES):
        refused(lambda: call(VALUES[what](), Y))
        refused(lambda: call(Y, y=VALUES[what]()))
        run = getattr(call, "run", None)
        if run is not None:
            refused(lambda: run({"x": VALUES[what](), "y": Y}, rooms()))


@pytest.mark.parametrize("what", ["None", "text", "bytes", "a dict", "objects", "raising"])
def test_operands_that_are_no_arrays(what: str) -> None:
    refused(lambda: xlac.jit(lambda x: x + VALUES[what]())(X))


def test_tensors_of_halves(spec: Any) -> None:
    """NumPy has no name for PyTorch's bfloat16, and does not take its memory."""
    torch, halves = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes").bfloat16
    given = torch.arange(4).to(torch.bfloat16)
    found = xlac.jit(lambda x: x + x)(given)
    assert found.dtype == halves and (found.astype(np.float32) == np.arange(4) * 2).all()
