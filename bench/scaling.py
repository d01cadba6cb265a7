"""How the work of each stage of compiling grows with the size of a model: `python bench/scaling.py
[SHAPE…] [--sizes 250,500,1000]`.

Prints for each shape of graph and each stage the CPU seconds at the largest size, and the exponent:
by what power of the size the stage grew over the last doubling (1 is linear). Stages are those of
`compiler.py`. SHAPES is what the quick form in tests/compiler/test_compile_scaling.py takes too,
which counts calls of functions and not seconds.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xlac.cache.store import Cache  # noqa: F401 - imported before anything is measured
from xlac.codegen.claims import is_kept, kind_taken
from xlac.codegen.gpu.core.instructions import permitted
from xlac.codegen.kernel_dedup import LoweringCache
from xlac.fusion.partition import partition
from xlac.ir.graph import Graph, Node
from xlac.memory.alternate import caches
from xlac.memory.planner import planned
from xlac.model import Model
from xlac.ops import build
from xlac.passes.capture import captured
from xlac.passes.pipeline import DEFAULT, optimize
from xlac.passes.weights import Weights
from xlac.spec.load import load
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request


def model(inputs: list[Node], outputs: list[Node], weights: dict[str, Any] | None = None) -> Model:
    """A model of these inputs and outputs, which are named by their number."""
    return Model(
        Graph("m", tuple(inputs), {f"y{n}": node for n, node in enumerate(outputs)}), weights or {}
    )


def x(name: str = "x", shape: tuple[int, ...] = (8,)) -> Node:
    """An f32 input."""
    return build.param(name, DType.F32, shape)


def chain(size: int) -> Model:
    """Operations one after another."""
    first = last = x()
    for n in range(size):
        last = build.apply1("tanh", last) if n % 2 else build.add(last, 0.5 + n)
    return model([first], [last])


def reductions(size: int) -> Model:
    """Groups one after another: each has a sum and what follows it."""
    first = last = x(shape=(8, 8))
    for n in range(size // 4):
        last = build.apply1("softmax", build.add(last, 0.5 + n), axis=-1)
    return model([first], [last])


def fan_out(size: int) -> Model:
    """One value that many operations read, all of them results."""
    first = x()
    return model([first], [build.add(first, float(n)) for n in range(size)])


def fan_in(size: int) -> Model:
    """Many values of one, summed one by one."""
    first = x()
    parts = [build.mul(build.apply1("sin", first), float(n)) for n in range(size)]
    total = parts[0]
    for part in parts[1:]:
        total = build.add(total, part)
    return model([first], [total])


def joined(size: int) -> Model:
    """A concatenation of many computed values."""
    first = x()
    return model([first], [build.concat([build.add(first, float(n)) for n in range(size)], 0)])


def inputs(size: int) -> Model:
    """Many inputs, concatenated: each is large enough for a kernel of its own."""
    given = [x(f"x{n}", (1 << 14,)) for n in range(size)]
    return model(given, [build.concat(given, 0)])


def many(size: int) -> Model:
    """Many inputs, each with a result of its own."""
    given = [x(f"x{n}") for n in range(size)]
    return model(given, [build.apply1("tanh", one) for one in given])


def weights(size: int) -> Model:
    """Layers one after another, each with weights of its own."""
    first = last = x(shape=(2, 8))
    held = {}
    for n in range(size // 4):
        held[f"w{n}"] = np.ones((8, 8), np.float32)
        last = build.apply1(
            "relu",
            build.apply1("matmul", last, build.param(f"w{n}", DType.F32, (8, 8), kind="weight")),
        )
    return model([first], [last], held)


def slices(size: int) -> Model:
    """A value cut into pieces, each worked on, and put together again."""
    first = x(shape=(size, 4))
    parts = [build.apply1("exp", build.cut(first, 0, n, n + 1)) for n in range(size)]
    return model([first], [build.concat(parts, 0)])


def branches(size: int) -> Model:
    """Diamonds one after another: each value is read twice, and both meet again."""
    first = last = x()
    for n in range(size // 3):
        last = build.mul(build.add(last, float(n)), build.apply1("sin", last))
    return model([first], [last])


def spec(text: Callable[[int], str]) -> Callable[[int], Model]:
    """A function from a size to the model of a spec whose text is made for that size."""

    def made(size: int) -> Model:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "m.yaml"
            file.write_text(text(size))
            return load(file)

    return made


HEAD = "xlac: 1\nmodel: m\nweights: {init: {}}\ninputs: {x: 'f32[2, 8]'}\n"
BLOCK = (
    "blocks:\n  b:\n    inputs: {x: 'f32[2, 8]'}\n    graph:\n      h: {op: linear, in: x, "
    "units: 8}\n      y: relu(h) + x\n    outputs: [y]\n"
)
SHAPES: dict[str, Callable[[int], Model]] = {
    "chain": chain, "reductions": reductions, "fan_out": fan_out, "fan_in": fan_in,
    "joined": joined, "inputs": inputs, "many": many, "weights": weights, "slices": slices,
    "branches": branches,
    "spec_chain": spec(
        lambda n: HEAD + "graph:\n" + "".join(
            f"  a{i + 1}: {'x' if not i else f'a{i}'} * 0.5\n" for i in range(
                n)) + f"outputs: [a{n}]\n"),
                "spec_blocks": spec(
                    lambda n: HEAD + BLOCK + ("graph:\n  y: {block: b, in: x, repeat: "
                                              f"{n // 4}}}\noutputs: [y]\n")),
}  # fmt: skip


def stages(make: Callable[[], Model], target: str = "cpu") -> list[tuple[str, Callable[[], Any]]]:
    """The stages of compiling, each to be run once, in order."""
    held: dict[str, Any] = {}
    backend = find(target)
    facts = backend.target(Request())

    def read() -> None:
        held["model"] = make()
        held["graph"], held["weights"] = held["model"].graph, Weights.over(held["model"].weights)
        held["schedules"] = LoweringCache(permitted(facts, "default"))

    def one_pass(name: str) -> Callable[[], None]:
        def run() -> None:
            held["graph"] = optimize(
                held["graph"],
                facts,
                weights=held["weights"],
                pipeline=DEFAULT.between(name, name),
                is_kept=is_kept,
            )

        return run

    def fuse() -> None:
        held["groups"] = partition(captured(held["graph"]), facts, kind_taken=kind_taken)

    def lower() -> None:
        held["lowerings"] = held["schedules"].lowered(held["groups"])

    def plan() -> None:
        held["program"], _ = planned(
            held["groups"], held["lowerings"], held["weights"], {}, (), caches(facts)
        )

    def emit() -> None:
        held["sources"] = backend.emit(held["program"], facts)

    return [
        ("read", read),
        *((name, one_pass(name)) for name, _ in DEFAULT.stages),
        ("fusion", fuse),
        ("kernels", lower),
        ("plan", plan),
        ("emit", emit),
    ]


def seconds(make: Callable[[int], Model], size: int) -> dict[str, float]:
    """CPU seconds of each stage for a model of some size."""
    seconds = {}
    for name, run in stages(lambda: make(size)):
        start = time.process_time()
        run()
        seconds[name] = time.process_time() - start
    return seconds


def main() -> None:
    """Prints how each stage's time grows with the size of each kind of model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--sizes", default="250,500,1000")
    chosen = parser.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    for shape in chosen.shapes:
        rows = [seconds(SHAPES[shape], size) for size in sizes]
        total = sum(rows[-1].values())
        print(
            f"{shape}: {total:.2f} s at {sizes[-1]:,}, "
            f"{' '.join(f'{sum(row.values()):.2f}' for row in rows)}"
        )
        for name in rows[-1]:
            before, after = rows[-2][name], rows[-1][name]
            if after > 0.05:
                power = math.log(after / max(before, 1e-4)) / math.log(sizes[-1] / sizes[-2])
                print(f"  {name:18} {after:7.2f} s  size^{power:.1f}", flush=True)


if __name__ == "__main__":
    main()
