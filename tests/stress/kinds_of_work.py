"""The kinds of work that `leaks.py` repeats: each is made in a folder of its own, and does one turn
when it is called with the turn's number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import xlac

SPEC = """\
xlac: 1
model: m
dims: {batch: {max: 512}}
weights: {init: {seed: 1}}
params: {k: NUMBER}
inputs: {x: "f32[batch, 16]"}
graph:
  h: {op: linear, in: x, units: 32}
  y: softmax(tanh(h) * $k, axis=-1)
outputs: [y]
"""
TRAIN = """\
xlac: 1
model: m
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 16]", t: "i64[batch]"}
graph:
  h: {op: linear, in: x, units: 4}
outputs: [h]
train: {batch: batch, loss: "mean(cross_entropy(h, t))", optimizer: {adamw: {lr: 0.01}}}
"""
X = np.random.default_rng(0).normal(size=(8, 16)).astype("f4")
Turn = Callable[[int], None]


def spec(folder: Path, number: int) -> Path:
    """A file whose program differs by a number; it takes the place of the last."""
    file = folder / "m.yaml"
    file.write_text(SPEC.replace("NUMBER", f"{1 + number / 1000:.4f}"))
    return file


def compiling(target: str) -> Callable[[Path], Turn]:
    """Compiles a new program each turn, calls it and drops it."""

    def work(folder: Path) -> Turn:
        return lambda n: xlac.compile(spec(folder, n), target)(X)

    return work


def kept(folder: Path) -> Turn:
    """Loads one of seven programs from the cache, calls it and drops it."""
    return lambda n: xlac.compile(spec(folder, n % 7))(X)


def sizes(folder: Path) -> Turn:
    """One program, called with many batches: what it keeps for each is bounded."""
    made = xlac.compile(spec(folder, 0))
    return lambda n: made(np.ones((1 + n % 70, 16), "f4"))


def calls(folder: Path) -> Turn:
    """Every way to call a program."""
    made = xlac.compile(spec(folder, 0), dims={"batch": 8})
    out = {"y": np.empty((8, 32), "f4")}

    def turn(n: int) -> None:
        made(X)
        made(x=X)
        made.run({"x": X}, {"y": np.empty((8, 32), "f4")})
        made.run({"x": X}, out)
        for wrong in (X[:, :3], X.astype("f8"), "x"):
            try:
                made(wrong)
            except (xlac.SourceError, TypeError, ValueError):
                continue
            raise AssertionError(wrong)

    return turn


def threads(folder: Path) -> Turn:
    """Calls from eight threads, by programs of one and of two threads."""
    made = [xlac.compile(spec(folder, 0), dims={"batch": 8}, threads=t) for t in (1, 2)]

    def turn(n: int) -> None:
        with ThreadPoolExecutor(8) as pool:
            for result in pool.map(lambda m: m(X), made * 8):
                assert result.shape == (8, 32)

    return turn


def stopped(folder: Path) -> Turn:
    """Calls that a time-out ends."""
    file = folder / "endless.yaml"
    file.write_text(
        "xlac: 1\nmodel: endless\ninputs: {n: 'i32[]'}\ngraph:\n  loop: {while: steps >= 0, carry: "
        "{steps: {init: 0, type: 'i32[]'}}, next: {steps: n - steps}}\noutputs: {k: loop.steps}\n"
    )
    made = xlac.compile(file)

    def turn(n: int) -> None:
        try:
            with xlac.timeout(0.002):
                made(np.int32(1))
        except TimeoutError:
            return
        raise AssertionError("it ended")

    return turn


def mistakes(folder: Path) -> Turn:
    """Specs that are refused, each for another reason."""
    right = spec(folder, 0).read_text()
    wrong = [right.replace("tanh", f"tanh{end}") for end in ("q", "(", " $", "(x, ")] + [
        right.replace("units: 32", f"units: {bad}") for bad in ("-1", "x", "1e99", "[2]")
    ]
    file = folder / "wrong.yaml"

    def turn(n: int) -> None:
        file.write_text(wrong[n % len(wrong)])
        try:
            xlac.compile(file)
        except xlac.SourceError:
            return
        raise AssertionError(file.read_text())

    return turn


def traced(folder: Path) -> Turn:
    """Functions of Python: new ones, new shapes of one, gradients."""

    def turn(n: int) -> None:
        f = xlac.jit(lambda x: xlac.tanh(x) * (1 + n % 50), target="reference")
        f(X[: 1 + n % 8])
        xlac.grad(lambda x: xlac.sum(x * x * (n % 9)))(X)

    return turn


def stepping(folder: Path) -> Turn:
    """A trainer: made every tenth turn; steps of several batches, a copy of its state and back."""
    file = folder / "train.yaml"
    file.write_text(TRAIN)
    held: list[Any] = []

    def turn(n: int) -> None:
        if n % 10 == 0:
            held[:] = [xlac.trainer(file)]
        for size in (8, 3):
            held[0].step(x=X[:size], t=np.arange(size) % 4)
        held[0].restore(held[0].state())
        held[0].evaluate(x=X, t=np.arange(8) % 4)

    return turn


def models(folder: Path) -> Turn:
    """Importers: text of StableHLO, right and damaged."""
    from xlac.frontends.loader import load

    right = (Path(__file__).parents[1] / "stablehlo").rglob("*.mlir")
    texts = [file.read_text() for file in sorted(right)[:8]]
    file = folder / "m.mlir"

    def turn(n: int) -> None:
        text = texts[n % len(texts)]
        file.write_text(text if n % 2 else text[: len(text) * 2 // 3])
        try:
            load(file)
        except xlac.SourceError:
            assert n % 2 == 0 or "XL7" in str(sys.exc_info()[1])

    return turn


def artefacts(folder: Path) -> Turn:
    """Builds an artefact into the same folder and runs it."""
    from xlac.cli import root

    out, nowhere = folder / "out", Path(os.devnull).open("w")  # noqa: SIM115 - for all turns

    def turn(n: int) -> None:
        command = ["build", str(spec(folder, n % 3)), "-o", str(out), "--dim", "batch=8"]
        with redirect_stdout(nowhere):
            root.main(command, standalone_mode=False)
        xlac.load(out)(X)

    return turn


WORK: dict[str, Callable[[Path], Turn]] = {
    "compiling for cpu": compiling("cpu"),
    "compiling for c": compiling("c"),
    "compiling for reference": compiling("reference"),
    "kept programs": kept,
    "sizes": sizes,
    "calls": calls,
    "threads": threads,
    "stopped": stopped,
    "mistakes": mistakes,
    "traced functions": traced,
    "training": stepping,
    "importing": models,
    "artefacts": artefacts,
}
