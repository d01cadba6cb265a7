"""Files of weights: what a spec's `weights: FILE` reads, told apart by how they begin: safetensors,
.npz, state dicts of PyTorch.
"""

from __future__ import annotations

import io
import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from harness.target import NUMBERS, Target

from xlac.frontends.loader import load

SPEC = """xlac: 1
model: m
weights: {file: w.safetensors, widen: true, ignore: ["x*"]}
inputs: {x: "f32[2, 4]"}
graph:
  h: {op: linear, in: x, units: 3}
outputs: [h]
"""
TENSORS = {"h.weight": np.ones((3, 4), np.float32), "h.bias": np.zeros(3, np.float32)}
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "BOOL", "F8_E4M3", "C64", "", "f32")


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "m.yaml").write_text(SPEC)
        (Path(folder) / "w.safetensors").write_bytes(data)
        model = load(Path(folder) / "m.yaml")
        for name in model.weights:
            np.array(model.weights[name])


def packed(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def seeds() -> Iterator[bytes]:
    from safetensors.numpy import save

    yield save(TENSORS)
    yield save(
        {**TENSORS, "x": np.zeros((0, 3), np.int8), "xy": np.zeros((), np.float64)},
        metadata={"a": "b"},
    )
    yield save({name: array.astype(np.float16) for name, array in TENSORS.items()})
    for write in (np.savez, np.savez_compressed):
        made = io.BytesIO()
        write(made, **TENSORS)
        yield made.getvalue()
    try:
        import torch
    except ImportError:
        return
    for found in (
        TENSORS,
        {
            "h": {"weight": TENSORS["h.weight"], "bias": TENSORS["h.bias"]},
            "x": TENSORS["h.weight"].T,
        },
    ):
        made = io.BytesIO()
        torch.save(_tensors(found, torch), made)
        yield made.getvalue()


def _tensors(value: Any, torch: Any) -> Any:
    return (
        {k: _tensors(v, torch) for k, v in value.items()}
        if isinstance(value, dict)
        else torch.from_numpy(np.ascontiguousarray(value))
    )


def mutate(data: bytes, random: Random) -> bytes | None:
    """Another field of a safetensors header."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        entry = header[random.choice(sorted(header))]
        match random.choice(("dtype", "shape", "data_offsets", "drop")):
            case "dtype":
                entry["dtype"] = random.choice(DTYPES)
            case "drop":
                del entry[random.choice(sorted(entry))]
            case field:
                numbers = entry[field]
                if numbers and random.random() < 0.7:
                    numbers[random.randrange(len(numbers))] = random.choice(
                        (*NUMBERS, 1.5, None, True)
                    )
                else:
                    numbers.append(random.choice(NUMBERS))
        return packed(header, data[8 + length :])
    except (ValueError, struct.error, LookupError, TypeError, AttributeError):
        return None


TARGET = Target(
    run,
    seeds,
    mutate,
    words=(
        b'"dtype"',
        b'"F32"',
        b'"shape"',
        b'"data_offsets"',
        b"[0,0]",
        b"__metadata__",
        b"PK\x03\x04",
        b"\x93NUMPY",
    ),
)
