"""Models that do not end by themselves, and a signal that comes while one is running.

As a script: compiles one and calls it, for a test that sends the signal from outside.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Self

import numpy as np

import xlac

SPECS = {
    "while": """
xlac: 1
model: endless
inputs: {n: "i32[]"}
graph:
  loop:
    while: steps >= 0
    carry: {steps: {init: 0, type: "i32[]"}}
    next: {steps: n - steps}
outputs: {k: loop.steps}
""",
    "repeat": """
xlac: 1
model: repeated
inputs: {x: "f32[8]", n: "i32[]"}
graph:
  outer:
    while: a < n
    carry: {a: {init: 0, type: "i32[]"}, v: x}
    body:
      inner:
        while: b < 1000000000
        carry: {b: {init: 0, type: "i32[]"}, w: v}
        next: {b: b + 1, w: w * 0.5}
    next: {a: a + 1, v: inner.w}
outputs: {y: outer.v}
""",
    "sum": """
xlac: 1
model: large_sum
inputs: {x: "f32[2000000, 1]", y: "f32[1, 4400000]"}
graph: {s: sum(x * y + x / (y + 2))}
outputs: [s]
""",
    "rows": """
xlac: 1
model: many_rows
inputs: {x: "f32[4000000, 1]", y: "f32[1, 400000]"}
graph: {s: "sum(exp(x * y), axis=1)"}
outputs: [s]
""",
    "sizes": """
xlac: 1
model: open_sum
dims: {n: {min: 1, max: 2000000, opt: 64}}
inputs: {x: "f32[n, 1]", y: "f32[1, 4400000]"}
graph: {s: sum(x * y + x / (y + 2))}
outputs: [s]
""",
}


def model(name: str, folder: Path, **options: Any) -> Any:
    """One of them, compiled."""
    file = folder / f"{name}.yaml"
    file.write_text(SPECS[name])
    return xlac.compile(file, **options)


def inputs(program: Any) -> list[Any]:
    """Zeros of a program's types, its sizes at their greatest."""
    most = {symbol.name: symbol.max for symbol in program.sizes}
    return [np.ones(slot.extents(most), slot.dtype.numpy) for slot in program.inputs]


class Pressed:
    """Presses ctrl-C when the block has run for a while."""

    def __init__(self, after: float = 0.05, number: int = signal.SIGINT) -> None:
        self.after, self.number, self.over = after, number, threading.Event()

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self.press)
        self.thread.start()
        return self

    def press(self) -> None:
        self.over.wait(self.after)
        os.kill(os.getpid(), self.number)

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()


if __name__ == "__main__":
    made = model(sys.argv[1], Path(sys.argv[2]), target=sys.argv[3], threads=int(sys.argv[4]))
    given = inputs(made.program)
    print("begins", flush=True)
    made(*given)
