"""Models of ONNX's suite, damaged at random: importing one gives a model or a SourceError, and
nothing else.
"""

from __future__ import annotations

import random
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto as A
from onnx import ModelProto

from xlac.frontends.onnx import load
from xlac.model import Undecided
from xlac_sdk.source import SourceError

NUMBERS = (0, -1, 1, 2, 3, -2, 7, 100, 65536, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))


@cache
def cases() -> list[Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in load_model_tests(kind="node") if case.model]


def damaged_bytes(whole: bytes, rng: random.Random) -> bytes:
    made = bytearray(whole)
    at = rng.randrange(len(made))
    match rng.randrange(4):
        case 0:
            del made[at:]
        case 1:
            for _ in range(rng.randrange(1, 6)):
                made[rng.randrange(len(made))] = rng.randrange(256)
        case 2:
            del made[at : at + rng.randrange(1, 9)]
        case _:
            made[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(made)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(12)
def test_damaged_bytes(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    file = tmp_path / "m.onnx"
    for case in rng.sample(cases(), 20):
        whole = case.model.SerializeToString()
        for _ in range(4):
            file.write_bytes(damaged_bytes(whole, rng))
            try:
                load(file)
            except SourceError:
                continue


def change(proto: ModelProto, rng: random.Random) -> None:
    """One node, attribute or input, made wrong."""
    graph = proto.graph
    node = rng.choice(graph.node)
    match rng.randrange(7):
        case 0 | 1 if node.attribute:
            _attribute(rng.choice(node.attribute), rng)
        case 2 if node.attribute:
            del node.attribute[rng.randrange(len(node.attribute))]
        case 3 if node.input:
            del node.input[rng.randrange(len(node.input))]
        case 4 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(
                [*node.output, "", *(i.name for i in graph.input)]
            )
        case 5 if graph.input:
            dims = rng.choice(graph.input).type.tensor_type.shape.dim
            if dims:
                dims[rng.randrange(len(dims))].dim_value = rng.choice(NUMBERS)
        case _ if graph.input:
            kind = rng.choice(graph.input).type
            if kind.HasField("tensor_type"):
                kind.tensor_type.elem_type = rng.randrange(30)


def _attribute(attribute: Any, rng: random.Random) -> None:
    match attribute.type:
        case A.INT:
            attribute.i = rng.choice(NUMBERS)
        case A.INTS if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(NUMBERS)
        case A.INTS:
            attribute.ints.append(rng.choice(NUMBERS))
        case A.FLOAT:
            attribute.f = rng.choice((0.0, -1.0, float("inf"), float("nan")))
        case A.STRING:
            attribute.s = rng.choice((b"", b"other", attribute.s[:1]))
        case A.TENSOR if attribute.t.dims:
            attribute.t.dims[0] = rng.choice(NUMBERS)


def imported(proto: ModelProto, arrays: dict[str, Any], rng: random.Random) -> None:
    """Imports a model, with the values that it asks for; some of these are made wrong too."""
    params: dict[str, Any] = {}
    while True:
        try:
            load(proto, params=params)
            return
        except Undecided as undecided:
            asked = undecided.interface.values | undecided.interface.formed
            if not all(name in arrays for name in asked) or asked <= params.keys():
                return
            params |= {name: _wrong(arrays[name], rng) for name in asked - params.keys()}
        except SourceError:
            return


def _wrong(array: Any, rng: random.Random) -> Any:
    if (
        not isinstance(array, np.ndarray)
        or array.dtype.kind not in "iu"
        or not array.size
        or rng.random() < 0.5
    ):
        return array
    found, info = array.copy(), np.iinfo(array.dtype)
    found.reshape(-1)[rng.randrange(array.size)] = rng.choice(
        [n for n in NUMBERS if info.min <= n <= info.max]
    )
    return found


@pytest.mark.parametrize("seed", range(2))
def test_damaged_meanings(seed: int) -> None:
    rng = random.Random(seed)
    for case in rng.sample(cases(), 250):
        arrays = dict(
            zip([i.name for i in case.model.graph.input], case.data_sets[0][0], strict=False)
        )
        for _ in range(3):
            proto = ModelProto()
            proto.CopyFrom(case.model)
            change(proto, rng)
            imported(proto, arrays, rng)
