"""Logistic regression with momentum in NumPy: something that learns, in place of a compiled
trainer.

As a script: `logistic.py RUN FOLDER OPTIONS`, trains on the arrays in a folder, for tests that kill
it. Before step `hold` it waits for a line, so that it is not over before it is killed, however busy
the machine is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xlac.ir.dims import symbol
from xlac.ir.types import Type
from xlac.spec.weights.safetensors import TensorSource, write_tensors
from xlac.training.data.column import IndexRange
from xlac.training.loop.run import TrainingRun
from xlac.training.loop.train import train
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import Diagnostic, SourceError

Totals = dict[str, tuple[float, float]]


class LogisticSteps:
    """Softmax regression of `classes` classes on `width` numbers, in f32."""

    batch = "batch"
    averages = False
    metrics = ("loss", "accuracy")
    losses = ("loss",)
    step_metrics: tuple[str, ...] = ()
    parts: Mapping[str, Any] = {}
    accumulate, needs_length, ranks = 1, False, None

    def __init__(
        self, width: int = 8, classes: int = 4, rate: float = 0.1, pause: float = 0
    ) -> None:
        rows = symbol("batch", 1, 512, 16)
        self.inputs = {"image": Type(DType.F32, (rows, width)), "label": Type(DType.I32, (rows,))}
        self.ranges = {"label": IndexRange(0, classes - 1)}
        self.rate, self.pause, self.length = rate, pause, 0
        self.fingerprint = f"logistic {width} {classes} {rate}"
        self._state: dict[str, Array] = {
            "w": np.zeros((width, classes), np.float32),
            "v": np.zeros((width, classes), np.float32),
            "step": np.zeros((), np.int64),
        }
        self.seen: list[Array] = []  # labels of each step

    @property
    def steps_done(self) -> int:
        return int(self._state["step"])

    def _forward(self, arrays: Mapping[str, Any]) -> tuple[Array, Array, Totals]:
        x, t = arrays["image"], arrays["label"]
        assert x.dtype == np.float32 and t.dtype == np.int32 and x.flags.c_contiguous
        z = x @ self._state["w"]
        z = z - z.max(1, keepdims=True)
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        losses = -np.log(np.maximum(p[np.arange(len(t)), t], np.float32(1e-30)))
        right = (z.argmax(1) == t).sum()
        count = float(len(t))
        return x, p, {"loss": (float(losses.sum()), count), "accuracy": (float(right), count)}

    def run_step(self, arrays: Mapping[str, Any]) -> Totals:
        x, p, sums = self._forward(arrays)
        time.sleep(self.pause)
        self.seen.append(arrays["label"].copy())
        p[np.arange(len(x)), arrays["label"]] -= 1
        rate = self.rate * (1 - self.steps_done / max(1, self.length))
        self._state["v"] = np.float32(0.9) * self._state["v"] + x.T @ p / np.float32(len(x))
        self._state["w"] = self._state["w"] - np.float32(rate) * self._state["v"]
        self._state["step"] = self._state["step"] + 1
        return sums

    def run_evaluate(self, arrays: Mapping[str, Any]) -> Totals:
        return self._forward(arrays)[2]

    @property
    def carries(self) -> tuple[str, ...]:
        return ()

    def begin_sequence(self, kind: str) -> None:
        pass

    def state(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self._state.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        if state.keys() != self._state.keys():
            raise SourceError(Diagnostic("XL3020", "the state of another model"))
        self._state = {name: np.array(array) for name, array in state.items()}

    def set_length(self, steps: int) -> None:
        self.length = steps

    def save_weights(self, path: Path) -> None:
        array = self._state["w"]
        write_tensors(path, {"w": TensorSource(Type(DType.F32, array.shape), lambda: array)})


def samples(rows: int = 100, seed: int = 0, width: int = 8, classes: int = 4) -> dict[str, Array]:
    """Rows that can be learned."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((rows, width)).astype(np.float32)
    true = np.random.default_rng(9).standard_normal((width, classes))
    return {"image": x, "label": (x @ true).argmax(1).astype(np.int32)}


DATA, TEST = samples(50), samples(30, 1)


class Told:
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def count(self, what: str, done: int, total: int) -> None:
        assert done <= total or not total

    def row(self, row: Any) -> None:
        self.lines.append(f"row {row['epoch']}")


def trained(run: Path, made: LogisticSteps | None = None, **options: Any) -> TrainingRun:
    given = {"epochs": 3, "batch": 16, "validate": TEST, **options}
    return train(made or LogisticSteps(), given.pop("data", DATA), run, **given)


if __name__ == "__main__":
    run, folder, text = sys.argv[1:]
    options = json.loads(text)
    pause, hold = options.pop("pause", 0.0), options.pop("hold", -1)

    class Printed(Told):
        def say(self, text: str) -> None:
            print(text, flush=True)

        def row(self, row: Mapping[str, float]) -> None:
            print("row", row["epoch"], flush=True)

    class Held(LogisticSteps):
        def run_step(self, arrays: Mapping[str, Any]) -> Totals:
            if self.steps_done == hold:
                sys.stdin.readline()
            return super().run_step(arrays)

    try:
        train(
            Held(pause=pause),
            f"{folder}/train.npz",
            run,
            validate=f"{folder}/test.npz",
            report=Printed(),
            **options,
        )
    except KeyboardInterrupt:
        sys.exit(130)
    print("done", flush=True)
