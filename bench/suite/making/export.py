"""Writes whole models as rows: `python -m suite.making.export OUT NAME …`, where there is PyTorch.

Each folder has model.onnx, inputs.npz, expected.npz (the model in float64) and meta.json. A model
that cannot be exported is told and makes the exit code 1; the others are written.
"""

from __future__ import annotations

import copy
import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch.utils.flop_counter import FlopCounterMode

from .floats import floats
from .whole import LISTED, build, inputs_of

OLDER = 16  # opsets up to this are written by PyTorch's older exporter
TOLERANCE = 2e-3  # of the largest magnitude: f32 through tens of layers


class Flat(torch.nn.Module):
    """A model whose results are a tuple of the floats that it gives."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *given: Any) -> Any:
        """The results."""
        return tuple(floats(self.inner(*given)))


def exported(name: str, folder: Path) -> None:
    """One model in its folder; meta.json comes last, and says that all is there."""
    model, given = build(name)
    flat = Flat(model).eval().requires_grad_(False)
    names = list(inputs_of(name))
    opset = LISTED["models"][name].get("opset", LISTED["opset"])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        first = flat(*given)
    try:
        exact = copy.deepcopy(flat).double()
        with torch.no_grad():
            wanted = exact(*(g.double() if g.is_floating_point() else g for g in given))
        reference = "eager PyTorch in float64"
    except RuntimeError:  # a model that makes f32 arrays of its own
        wanted, reference = first, "eager PyTorch in float32"
    folder.mkdir(parents=True, exist_ok=True)
    results = [f"y{i}" for i in range(len(first))]
    options: dict[str, Any] = {"input_names": names, "output_names": results}
    with torch.no_grad():
        if opset <= OLDER:
            options |= {"dynamo": False, "opset_version": opset}
        else:
            options |= {"dynamo": True, "opset_version": opset, "external_data": False}
        torch.onnx.export(flat, tuple(given), str(folder / "model.onnx"), verbose=False, **options)
    inputs = {k: g.numpy() for k, g in zip(names, given, strict=True)}
    expected = {k: w.numpy().astype(np.float32) for k, w in zip(results, wanted, strict=True)}
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "expected.npz", **expected)
    np.savez(folder / "weights.npz")
    held = onnx.load(folder / "model.onnx").graph
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    written = sum(one.nbytes for one in expected.values())
    meta = {
        "name": name,
        "inputs": [i.name for i in held.input],
        "weights": [],
        "outputs": results,
        "train": False,
        "flops": float(counter.get_total_flops()),
        "write_bytes": written,
        "min_bytes": float(sum(v.nbytes for v in inputs.values()) + weights + written),
        "weight_bytes": weights,
        "tolerance": TOLERANCE,
        "reference": reference,
        "jax": "",
        "torch": "",
        "module": name,
        "has_onnx": True,
        "nodes": len(held.node),
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1))


def main() -> int:
    """Writes the models that are named; how many could not be."""
    warnings.filterwarnings("ignore")
    out, failed = Path(sys.argv[1]), 0
    for name in sys.argv[2:]:
        try:
            exported(name, out / name)
            print(f"{name}: written", flush=True)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            failed += 1
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
