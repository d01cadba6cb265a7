"""Thirty steps in f32, ours and PyTorch's, and how far each ends from the same steps in f64.

    python bench/training/distances.py [ROW…] [--steps 30] [--seed 0] [--tensors]

All begin with the same weights, rounded to f32, and see the same batches, a new one each step. A
distance is the root of the sum of squares over all that is learned, of what differs from PyTorch's
run in f64, over what that run has learned: after the first step it is the rounding of one gradient,
later what the steps made of it. PyTorch runs with one thread and with two, which add in other
orders. Ours in f64 is beside PyTorch's too. `--tensors` names the tensors whose first step lies
farthest from f64 beside PyTorch's, which is where to look for a sum that loses digits.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contender import MEASURED
from frameworks import Torch
from networks import NETWORKS
from step_rows import ROWS, StepRow, images, momentum

Arrays = dict[str, np.ndarray[Any, Any]]
Snapshots = dict[int, Arrays]
GPT: Mapping[str, object] = {
    "width": 192,
    "heads": 12,
    "words": 1000,
    "batch": 2,
    "length": 64,
    "layers": 6,
}
WORDS = ((2, 64), 1000)
FEW: Mapping[str, object] = {"batch": 8, "lr": 0.01}
MODELS: dict[str, StepRow] = {
    **{name: ROWS[name] for name in ("mlp", "lstm", "unet", "bert_layer")},
    "resnet18_cifar": replace(
        ROWS["resnet18_cifar"], inputs=images(8, 32, 10), optimizer=momentum(0.01, 5e-4), params=FEW
    ),
    "gpt_6": replace(ROWS["gpt_small"], inputs={"ids": WORDS, "y": WORDS}, params=GPT),
}
HEAD = """\
| model | f64: loss, weights | ours after 1, {steps} | PyTorch's | 2 threads | over the larger |
|---|---|---|---|---|---|"""


def batches(row: StepRow, steps: int, seed: int) -> Iterator[Arrays]:
    """A batch for each step: f32, and i32 below their bound."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield {
            name: rng.integers(0, below, shape).astype(np.int32)
            if below
            else rng.standard_normal(shape).astype(np.float32)
            for name, (shape, below) in row.inputs.items()
        }


def cast(arrays: Arrays, dtype: str) -> Arrays:
    """The arrays with floats as `dtype`."""
    return {n: a.astype(dtype) if a.dtype.kind == "f" else a for n, a in arrays.items()}


class Xlac:
    """Our trainer of a row, whose spec says f32 where it is to compute in f64."""

    def __init__(self, row: StepRow, dtype: str, weights: Arrays | None) -> None:
        from xlac.training.trainer import Trainer

        file = Path(__file__).parent / "models" / f"{row.network}.yaml"
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / file.name
            own = {"float32": "f32", "float64": "f64"}[dtype]
            spec.write_text(file.read_text().replace("f32", own))
            self.trainer = Trainer(spec, params=row.params, target="cpu", threads=2)
        if weights is not None:
            self.trainer.restore({**self.trainer.state(), **cast(weights, dtype)})

    def step(self, given: Arrays) -> float:
        """Trains on a batch; returns the loss."""
        return self.trainer.step(**given)["loss"]

    def weights(self) -> Arrays:
        """The weights in float64, by name."""
        return {n: a.astype(np.float64) for n, a in self.trainer.weights().items()}


class Eager:
    """PyTorch's eager steps of a row."""

    def __init__(self, row: StepRow, dtype: str, weights: Arrays) -> None:
        ops, network = Torch(), NETWORKS[row.network]
        ops.zeros = lambda shape: torch.zeros(shape, dtype=getattr(torch, dtype))  # type: ignore[method-assign]
        self.tensors = {n: torch.from_numpy(a.copy()) for n, a in cast(weights, dtype).items()}
        learned = [t.requires_grad_() for n, t in self.tensors.items() if not n.endswith(MEASURED)]
        kind, options = row.optimizer
        self.optimizer = getattr(torch.optim, kind)(learned, **options)
        self.loss: Callable[..., Any] = lambda given: network(ops, self.tensors, **given)

    def step(self, given: Arrays) -> float:
        """Trains on a batch; returns the loss."""
        self.optimizer.zero_grad()
        loss = self.loss({name: torch.from_numpy(array) for name, array in given.items()})
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def weights(self) -> Arrays:
        """The weights in float64, by name."""
        return {n: t.detach().numpy().astype(np.float64) for n, t in self.tensors.items()}


def run(
    model: Xlac | Eager, row: StepRow, dtype: str, steps: int, seed: int
) -> tuple[list[float], Snapshots]:
    """The losses of all steps, and the weights after the first and the last."""
    losses, kept = [], {}
    for number, given in enumerate(batches(row, steps, seed), 1):
        losses.append(model.step(cast(given, dtype)))
        if number in (1, steps):
            now = model.weights()
            kept[number] = {n: a.copy() for n, a in now.items() if not n.endswith(MEASURED)}
    return losses, kept


def square(arrays: Arrays, wanted: Arrays) -> float:
    """The sum of squares of what differs."""
    return sum(float(np.sum(np.square(arrays[n] - wanted[n]))) for n in wanted)


def distance(arrays: Arrays, wanted: Arrays, start: Arrays) -> float:
    """Of `found` from `wanted`, over what `wanted` has moved from `start`."""
    return float(np.sqrt(square(arrays, wanted) / square({n: start[n] for n in wanted}, wanted)))


def farthest(ours: Arrays, theirs: list[Arrays], wanted: Arrays, start: Arrays) -> Iterator[str]:
    """The tensors whose distance is the largest multiple of PyTorch's."""
    shares = []
    for name, tensor in wanted.items():
        if np.array_equal(tensor, start[name]):
            continue
        one = {name: tensor}
        largest = max(distance(t, one, start) for t in theirs)
        shares.append((distance(ours, one, start) / max(largest, 1e-30), largest, name))
    for ratio, largest, name in sorted(shares, reverse=True)[:8]:
        yield f"    {name}: {ratio:.2f} of PyTorch's {largest:.1e}"


def measured(name: str, asked: argparse.Namespace) -> str:
    """A line of the table."""
    row = MODELS[name]
    start = Xlac(row, "float32", None).trainer.weights()
    start = {n: np.array(a) for n, a in start.items()}

    def of(kind: type[Xlac | Eager], dtype: str, threads: int) -> tuple[list[float], Snapshots]:
        torch.set_num_threads(threads)
        return run(kind(row, dtype, start), row, dtype, asked.steps, asked.seed)

    losses, wanted = of(Eager, "float64", 2)
    parity, wide = of(Xlac, "float64", 2)
    apart = max(abs(a / b - 1) for a, b in zip(parity, losses, strict=True))
    end, origin = asked.steps, cast(start, "float64")
    cells = [name, f"{apart:.0e}, {distance(wide[end], wanted[end], origin):.0e}"]
    contenders: list[tuple[type[Xlac | Eager], int]] = [(Xlac, 2), (Eager, 1), (Eager, 2)]
    runs = [of(kind, "float32", threads)[1] for kind, threads in contenders]
    each = [[distance(s[n], wanted[n], origin) for n in (1, end)] for s in runs]
    cells += [f"{first:.1e}, {last:.1e}" for first, last in each]
    cells += [", ".join(f"{each[0][n] / max(each[1][n], each[2][n]):.2f}" for n in (0, 1))]
    table = "| " + " | ".join(cells) + " |"
    if asked.tensors:
        lines = farthest(runs[0][1], [s[1] for s in runs[1:]], wanted[1], origin)
        table = "\n".join([table, *lines])
    return table


def main() -> None:
    """Prints how far the weights of each model are from those of float64."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=list(MODELS), metavar="ROW")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the batches")
    parser.add_argument("--tensors", action="store_true")
    asked = parser.parse_args()
    print(HEAD.format(steps=asked.steps), flush=True)
    for name in asked.rows:
        print(measured(name, asked), flush=True)


if __name__ == "__main__":
    main()
