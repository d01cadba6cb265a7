"""Whole models on opencl beside cpu: the largest difference of a result, as a part of its largest
element.

    python bench/opencl/models.py [ARCH] [MODEL ...]

ARCH (cpu) is whose facts choose the schedules; the models are those of specs/.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import xlac
from xlac.driver import specialized
from xlac.frontends.loader import load

SPECS = Path(__file__).parents[2] / "specs"
MODELS = ("digits", "lstm_3x60", "mobilenet_v2", "bert_layer", "resnet50")


def main(arch: str = "cpu", *models: str) -> None:
    """Prints a row for each output of each model."""
    print("| model | output | largest | difference | relative |\n|---|---|---|---|---|")
    for name in models or MODELS:
        spec, rng = str(SPECS / f"{name}.yaml"), np.random.default_rng(0)
        given = {
            getattr(node.op, "name", ""): rng.standard_normal(node.type.shape).astype(np.float32)
            for node in specialized(load(spec)).graph.inputs
        }
        ours = xlac.compile(spec, "opencl", arch=arch)(**given)
        theirs = xlac.compile(spec, "cpu", threads=1)(**given)
        ours = ours if isinstance(ours, dict) else {"y": ours}
        theirs = theirs if isinstance(theirs, dict) else {"y": theirs}
        for output, wanted in theirs.items():
            off, most = np.abs(ours[output] - wanted).max(), np.abs(wanted).max()
            cells = f"{most:.3g} | {off:.2g} | {off / most:.2g}"
            print(f"| {name} | {output} | {cells} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
