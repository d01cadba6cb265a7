"""No attribute makes a size negative, and none makes a result empty but those that say how large it
is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from xlac import driver
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op, ShapeError, attributes
from xlac.model import Model
from xlac.ops import OPS, build
from xlac.passes.narrow import narrowed
from xlac_sdk.dims import symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError

NUMBERS = (-40, -9, -2, -1, 0, 1, 2, 9, 40)
EMPTY = {
    "arange": "start stop step", "broadcast": "shape", "compact": "bound", "dyn_slice": "sizes",
    "expand": "shape", "eye": "rows columns", "full": "shape", "gather": "slice_sizes",
    "iota": "shape", "one_hot": "depth", "ones": "shape", "pad": "low high", "repeat": "repeats",
    "rng_bits": "shape", "slice": "starts stops steps", "split": "sizes", "tile": "repeats",
    "sort": "kept", "topk": "k", "zeros": "shape",
    "conv": "low high rhs_dilation strides lhs_dilation",
    "window": "window low high window_dilation strides base_dilation",
    "select_and_gather": "window low high window_dilation strides",
    "select_and_scatter": "low high",
}  # fmt: skip
"""The attributes that may leave nothing: they say how much is wanted. Windows of the primitives
clamp, as StableHLO's do.
"""


def changes(value: Any) -> Iterator[Any]:
    """Other values of an attribute that has numbers in it."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield from NUMBERS
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from ((*value[:place], other, *value[place + 1 :]) for other in changes(part))


def cases(op: type[Op]) -> Iterator[tuple[str, Op, tuple[Any, ...]]]:
    """Each sample that has elements, with one attribute changed."""
    seen = set()
    for sample in op.samples():
        key = (tuple(t.shape for t in sample.inputs), str(sample.attributes))
        given = op(**sample.attributes)
        if (
            key in seen
            or any(0 in t.shape for t in sample.inputs)
            or 0 in shapes(given, sample.inputs)
        ):
            continue
        seen.add(key)
        for name, value in attributes(given).items():
            yield from (
                (name, op(**attributes(given) | {name: other}), sample.inputs)
                for other in changes(value)
            )


def shapes(op: Op, inputs: tuple[Any, ...]) -> list[Any]:
    params = [build.param(f"p{n}", t.dtype, t.shape) for n, t in enumerate(inputs)]
    return [size for result in Node.of(op, *params).results for size in result.shape]


def test_no_attribute_leaves_nothing_unsaid() -> None:
    wrong = set()
    for mnemonic, kind in OPS.items():
        for name, op, inputs in cases(kind):
            try:
                found = shapes(op, inputs)
            except ShapeError:
                continue
            if min(found, default=1) < (0 if name in EMPTY.get(mnemonic, "").split() else 1):
                wrong.add(
                    f"{mnemonic} {name}: {op} of {', '.join(map(str, inputs))} has sizes {found}"
                )
    assert not wrong


WINDOWED = sorted(m for m, op in OPS.items() if "kernel" in inspect.signature(op).parameters)


@pytest.mark.parametrize("mnemonic", WINDOWED)
def test_a_window_larger_than_its_input_is_refused(mnemonic: str) -> None:
    """With padding on one side, along the last axis only, and with dilation where there is one; the
    kernel is at fault.
    """
    kind: Any = OPS[mnemonic]
    rank, transposed = kind.rank, "transpose" in mnemonic
    more: dict[str, Any] = {"filters": 2} if "filters" in inspect.signature(kind).parameters else {}
    x = build.param("x", DType.F32, (1, 2, *[8] * rank))

    def applied(**given: Any) -> Node:
        op = kind(**more | given)
        learned = [build.param(n, t.dtype, t.shape) for n, t in op.parameters(x.type).items()]
        return Node.of(op, x, *learned)

    if transposed:
        assert applied(kernel=1, pad=3).shape[2:] == (2,) * rank
        fails: list[dict[str, Any]] = [{"kernel": 1, "pad": 4}, {"kernel": 2, "pad": 20}]
    else:
        first = applied(kernel=8, stride=1)
        assert (
            first.shape[2:] == (1,) * rank
            and applied(kernel=9, pad=((0, 1),) * rank, stride=1).shape[2:] == (1,) * rank
        )
        fails = [
            {"kernel": 9},
            {"kernel": 30},
            {"kernel": (*[1] * (rank - 1), 9)},
            {"kernel": 11, "pad": ((0, 2),) * rank},
            {"kernel": 9, "stride": 4},
        ]
        if "dilation" in inspect.signature(kind).parameters:
            fails.append({"kernel": 5, "dilation": 2})
    for given in fails:
        with pytest.raises(ShapeError, match="does not fit axis") as told:
            applied(**given)
        assert told.value.attribute == "kernel"


def opened(n: Any) -> Model:
    x = build.param("x", DType.F32, (1, 2, n, 8))
    y = build.reduce(build.apply1("max_pool2d", x, kernel=(5, 2), stride=1), "add", (2,), False)
    return Model(Graph("m", (x,), {"y": y}), {}, {"n": n.parts[0][0][0]})


def test_a_size_that_leaves_a_window_no_place_is_refused_when_it_is_met() -> None:
    """Also where it cannot be told from the shape of any result."""
    with pytest.raises(SourceError, match=r"XL2009.*|with n=4.*does not fit"):
        driver.specialized(opened(symbol("n", 0, 64, 16)), {"n": 4})
    made = driver.unfixed(opened(symbol("n", 0, 64, 16)))
    assert (made.dims["n"].min, made.dims["n"].max) == (5, 64)


@pytest.mark.parametrize(("size", "bounds"), [
    (lambda n: n - 5, (5, 60)), (lambda n: 50 - n, (0, 50)), (lambda n: n // 2 - 4, (8, 60)),
    (lambda n: n - n // 2, (0, 60)), (lambda n: n * n - 100, (10, 60)),
])  # fmt: skip
def test_sizes_are_narrowed_to_what_has_a_size(size: Any, bounds: tuple[int, int]) -> None:
    n = symbol("n", 0, 60, 20)
    y = build.broadcast_to(build.constant(1.0, DType.F32), (size(n),))
    x = build.param("x", DType.F32, (n,))
    made = driver.unfixed(Model(Graph("m", (x,), {"y": y}), {}, {"n": n.parts[0][0][0]}))
    assert (made.dims["n"].min, made.dims["n"].max) == bounds


def test_a_size_that_is_wrong_where_it_is_optimised_for_is_an_error() -> None:
    n = symbol("n", 0, 60, 3)
    y = build.broadcast_to(build.constant(1.0, DType.F32), (n - 5,))
    with pytest.raises(SourceError, match="with n=3"):
        narrowed(
            Graph("m", (build.param("x", DType.F32, (n,)),), {"y": y}), {"n": n.parts[0][0][0]}
        )


N = symbol("n", 1, 64, opt=32)


@pytest.mark.parametrize(
    ("name", "attributes", "least"),
    [
        ("slice", {"starts": [1, 0], "stops": [9, 2], "steps": [1, 1]}, 9),
        ("slice", {"starts": [N - 3, 0], "stops": [N, 2], "steps": [1, 1]}, 3),
        ("slice", {"starts": [0, 0], "stops": [N, 2], "steps": [2, 1]}, 1),
        ("topk", {"k": 4, "axis": 0}, 4),
    ],
)
def test_what_takes_a_part_of_an_open_axis_needs_that_much(
    name: str, attributes: dict[str, Any], least: int
) -> None:
    """Else a program for all sizes reads beyond its operand."""
    x = build.param("x", DType.F32, (N, 2))
    made = build.make(OPS[name], [x], attributes)
    first = build.results(made)[0]
    graph = Graph("g", (x,), {"y": first})
    (one,) = N.parts[0][0]
    _, sizes = narrowed(graph, {"n": one})
    assert (sizes["n"].min, sizes["n"].max) == (least, 64)
