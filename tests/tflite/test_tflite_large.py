"""A large file is read as a model without its weights: they are mapped, and read where a program is
made. Bytes are counted, as times depend on what else the machine does.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tflite_case import const, x
from tflite_writer import Graph, Tensor, model

import xlac
from xlac.frontends.loader import load

COLUMNS, SIZE = 4096, 1 << 24
FULLY_CONNECTED = {"table": "FullyConnectedOptions", "fused_activation_function": 0}


def stored(kind: str) -> Graph:
    """A layer whose weight, stored in this type, takes so many bytes."""
    bits = int(kind[1:])
    rows = SIZE * 8 // bits // COLUMNS
    shape = (rows, COLUMNS)
    taken, given = x(1, COLUMNS), x(1, rows)
    if kind == "f16":
        weight = Tensor("f16", shape, value=np.zeros(shape, np.float16))
        steps = [
            ("DEQUANTIZE", {}, [1], [2]),
            ("FULLY_CONNECTED", FULLY_CONNECTED, [0, 2, -1], [3]),
        ]
        return Graph([taken, weight, x(*shape), given], steps, [0], [3])
    if kind == "f32":
        weight = const(np.zeros(shape), "f32")
    else:
        weight = Tensor(kind, shape, value=np.zeros(shape, np.int8), scale=[0.01] * rows)
    steps = [("FULLY_CONNECTED", FULLY_CONNECTED, [0, 1, -1], [2])]
    return Graph([taken, weight, given], steps, [0], [2])


def resident(file: Path) -> int:
    """Bytes of a mapped file that this process touched, by what Linux counts; 0 elsewhere."""
    maps, found, ours = Path("/proc/self/smaps"), 0, False
    for line in maps.read_text().splitlines() if maps.exists() else ():
        words = line.split()
        if not words[0].endswith(":"):
            ours = line.endswith(str(file))
        elif ours and words[0] == "Rss:":
            found += int(words[1]) << 10
    return found


@pytest.mark.parametrize("kind", ["f32", "f16", "i8", "i4"])
def test_weights_are_not_read_with_the_model(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(model(stored(kind)))
    tracemalloc.start()
    read = load(file)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < SIZE / 4
    assert resident(file) < SIZE / 4  # Linux maps up to 2 MB together
    (weight,) = read.weights.values()
    assert weight.size == SIZE * 8 // int(kind[1:])


def test_packed_weights_are_computed_with(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(-8, 8, (64, 64))
    weight = Tensor("i4", value=codes, scale=0.01)
    steps = [("FULLY_CONNECTED", FULLY_CONNECTED, [0, 1, -1], [2])]
    file = tmp_path / "model.tflite"
    file.write_bytes(model(Graph([x(1, 64), weight, x(1, 64)], steps, [0], [2])))
    taken = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    wanted = taken @ (codes.T * np.float32(0.01))
    for target in ("reference", "cpu"):
        np.testing.assert_allclose(
            xlac.compile(file, target=target)(taken), wanted, rtol=1e-5, atol=1e-5
        )
