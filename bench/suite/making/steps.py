"""Training steps of ../training as rows: `python -m suite.making.steps begin|expect FOLDER STEP`.

`begin` writes the weights and inputs, where xlac is installed; `expect` the losses of the first
five steps by eager PyTorch in float64, where that is, and how far from them a contender may be:
steps through many normalizations carry roundings on, so that eager PyTorch's own losses in
float32 are 1 % away on mobilenet_v2.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from step_rows import StepRow

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]

TOLERANCE = 1e-2  # of the largest loss, after five steps in f32
OWN = 4.0  # or this many times the distance of eager PyTorch's f32 losses, where that is more


def begin(folder: Path, name: str) -> None:
    """The weights that all contenders begin with, and the inputs."""
    from step_rows import ROWS
    from steps import written

    folder.mkdir(parents=True, exist_ok=True)
    written(ROWS[name], folder)


def expect(folder: Path, name: str) -> None:
    """The losses, and what the row is."""
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
        "reference": "eager PyTorch in float64",
        "jax": "",
        "torch": "",
        "has_onnx": False,
    }
    exact, single = (losses(ROWS[name], weights, inputs, of) for of in ("float64", "float32"))
    own = float(np.abs(single - exact).max() / np.abs(exact).max())
    meta["tolerance"] = max(TOLERANCE, OWN * own)
    np.savez(folder / "expected.npz", losses=exact.astype(np.float32))
    (folder / "meta.json").write_text(json.dumps(meta, indent=1))


def losses(row: StepRow, weights: Arrays, inputs: Arrays, dtype: str) -> Array:
    """The losses of the first steps by eager PyTorch with all floats in that type: [FIRST]."""
    import torch
    from contender import FIRST, torch_step

    torch.set_default_dtype(getattr(torch, dtype))  # of what networks make, as first states
    given = (
        {name: a.astype(dtype) if a.dtype.kind == "f" else a for name, a in arrays.items()}
        for arrays in (weights, inputs)
    )
    step = torch_step(row, False, *given)
    return np.array([step() for _ in range(FIRST)])


if __name__ == "__main__":
    {"begin": begin, "expect": expect}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
