"""What `xlac build` wrote of a spec that trains, called as C has it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from c_harness import WARNINGS, needs, run

from xlac_sdk.host.capi.library import ContextStruct, aligned


class Facts(ctypes.Structure):
    """`NAME_tensor_facts`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("count", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("offset", ctypes.c_size_t),
    ]


class Learner:
    """The library of a spec, or its C file, compiled; arrays in, (status, *results) out."""

    def __init__(
        self, folder: Path, name: str, sizes: int = 0, weights: np.ndarray | None = None
    ) -> None:
        made = folder / f"lib{name}.so"
        if not made.exists():
            needs("cc")
            flags = ("-std=c99", "-O2", "-shared", "-fPIC", *WARNINGS)
            run("cc", *flags, folder / f"{name}.c", "-lm", "-o", made)
        self.library, self.name = ctypes.CDLL(str(made)), name
        getattr(self.library, f"{name}_size").restype = ctypes.c_size_t
        getattr(self.library, f"{name}_tensor").restype = ctypes.POINTER(Facts)
        self.context = ContextStruct()
        chosen = [ctypes.byref(ctypes.c_int64(sizes))] if sizes else []
        self.memory = aligned(int(getattr(self.library, f"{name}_size")(*chosen)))
        self.memory[:] = 0xFF
        given = [pointer(self.memory), ctypes.c_size_t(len(self.memory))]
        if weights is not None:
            self.weights = aligned(len(weights))
            self.weights[:] = weights
            given += [pointer(self.weights), ctypes.c_size_t(len(weights))]
        assert self("init", *given) == 0

    def __call__(self, function: str, *given: Any) -> int:
        answer: int = getattr(self.library, f"{self.name}_{function}")(
            ctypes.byref(self.context), *given
        )
        return answer

    def batch(self, function: str, image: Any, label: Any, *sizes: Any) -> tuple[int, float, float]:
        """`NAME_step` or `NAME_evaluate`: the status, the loss, the accuracy."""
        loss, accuracy = np.zeros((), np.float32), np.zeros((), np.float32)
        answer = self(function, *sizes, *map(pointer, (image, label, loss, accuracy)))
        return answer, float(loss), float(accuracy)

    def facts(self) -> Iterator[tuple[int, Facts]]:
        number = 0
        while found := getattr(self.library, f"{self.name}_tensor")(number):
            yield number, found.contents
            number += 1

    def state(self) -> dict[str, np.ndarray]:
        """All tensors, by `NAME_get`."""
        found = {}
        for number, facts in self.facts():
            data = np.full(facts.bytes, 0xEE, np.uint8)
            assert self("get", number, pointer(data)) == 0
            found[facts.name.decode()] = data
        return found


def pointer(array: np.ndarray) -> Any:
    return ctypes.c_void_p(array.ctypes.data)


def flat(state: Any) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in state.items()}
