"""A training step of peers/jax_models as the StableHLO that JAX exports.

`python -m suite.making.stablehlo FOLDER`, where JAX is installed, writes step.mlir,
step_weights.npz and step_inputs.npz there.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np


def main() -> None:
    """Writes the step of a row whose folder has its weights and inputs."""
    folder = Path(sys.argv[1])
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    module, name = meta["jax"].split(":")
    step = getattr(importlib.import_module(f"jax_models.{module}"), name)
    weights, inputs = (dict(np.load(folder / f"{kind}.npz")) for kind in ("weights", "inputs"))
    prepared = getattr(step, "prepare_weights", lambda w: w)(weights)
    names = list(prepared)
    given = [np.asarray(jax.numpy.asarray(v)) for v in inputs.values()]

    def flat(*arrays: Any) -> Any:
        loss, new = step(dict(zip(names, arrays, strict=False)), *arrays[len(names) :])
        return loss, *(new[key] for key in names)

    exported = jax.jit(flat).lower(*prepared.values(), *given)
    (folder / "step.mlir").write_text(exported.as_text(dialect="stablehlo"))
    np.savez(folder / "step_weights.npz", **prepared)
    np.savez(folder / "step_inputs.npz", **dict(zip(inputs, given, strict=True)))
    meta["turned"] = hasattr(step, "prepare_weights")
    (folder / "meta.json").write_text(json.dumps(meta, indent=1))


if __name__ == "__main__":
    main()
