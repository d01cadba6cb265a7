"""Training steps of ../training as rows: `python -m suite.making.steps begin|expect FOLDER STEP`.

`begin` writes the weights and inputs, where xlac is installed; `expect` the losses of the first
five steps by eager PyTorch, where that is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

TOLERANCE = 1e-2  # of the largest loss, after five steps in f32


def begin(folder: Path, name: str) -> None:
    """The weights that all contenders begin with, and the inputs."""
    from step_rows import ROWS
    from steps import written

    folder.mkdir(parents=True, exist_ok=True)
    written(ROWS[name], folder)


def expect(folder: Path, name: str) -> None:
    """The losses, and what the row is."""
    from contender import FIRST, torch_step
    from step_rows import ROWS

    weights, inputs = (dict(np.load(folder / f"{kind}.npz")) for kind in ("weights", "inputs"))
    moved = float(sum(a.nbytes for a in (*weights.values(), *inputs.values())))
    meta = {
        "name": folder.name,
        "step": name,
        "inputs": list(inputs),
        "weights": list(weights),
        "outputs": ["losses"],
        "train": True,
        "flops": 0.0,
        "min_bytes": moved,
        "write_bytes": moved,
        "tolerance": TOLERANCE,
        "reference": "eager PyTorch in float32",
        "jax": "",
        "torch": "",
        "has_onnx": False,
    }
    step = torch_step(ROWS[name], False, weights, inputs)
    losses = np.array([step() for _ in range(FIRST)], np.float32)
    np.savez(folder / "expected.npz", losses=losses)
    (folder / "meta.json").write_text(json.dumps(meta, indent=1))


if __name__ == "__main__":
    {"begin": begin, "expect": expect}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
