"""A quantized model as a row: `python -m suite.making.quantize BASE FOLDER qdq|qoperator`, where
ONNX Runtime is installed.

u8 activations, i8 weights by channel, ranges of four drawn inputs, by onnxruntime.quantization. The
expected results are ONNX Runtime's without its optimizations: the operators as they are defined.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

FORMS = {"qdq": QuantFormat.QDQ, "qoperator": QuantFormat.QOperator}
TOLERANCE = 0.25  # root mean square over results: a tie that falls the other way is carried on
DRAWS = 4


class Drawn(CalibrationDataReader):
    """Inputs like a row's own, to calibrate by: the row's and some that are drawn."""

    def __init__(self, given: dict[str, Any]) -> None:
        rng = np.random.default_rng(1)
        self.left = [given]
        for _ in range(DRAWS - 1):
            self.left.append({name: _like(value, rng) for name, value in given.items()})

    def get_next(self) -> Any:
        """The next inputs by name; None at the end."""
        return self.left.pop() if self.left else None


def _like(value: Any, rng: np.random.Generator) -> Any:
    if value.dtype == np.float32:
        return rng.standard_normal(value.shape).astype(np.float32)
    return rng.permutation(value.reshape(-1)).reshape(value.shape)


def main() -> None:
    """Writes the quantized row."""
    base, folder, form = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    given = dict(np.load(base / "inputs.npz"))
    inferred = folder / "inferred.onnx"
    quant_pre_process(base / "model.onnx", inferred, skip_symbolic_shape=True)
    quantize_static(
        inferred,
        folder / "model.onnx",
        Drawn(given),
        quant_format=FORMS[form],
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    inferred.unlink()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=providers)
    meta = json.loads((base / "meta.json").read_text("utf-8"))
    wanted = dict(zip(meta["outputs"], session.run(meta["outputs"], given), strict=True))
    np.savez(folder / "inputs.npz", **given)
    np.savez(folder / "weights.npz")
    np.savez(folder / "expected.npz", **wanted)
    graph = onnx.load(folder / "model.onnx").graph
    weights = sum(len(one.raw_data) for one in graph.initializer)
    moved = float(meta["min_bytes"] - meta["weight_bytes"] + weights)
    meta |= {"name": folder.name, "tolerance": TOLERANCE, "weight_bytes": weights}
    meta |= {"min_bytes": moved, "module": "", "nodes": len(graph.node), "integers": True}
    meta |= {"reference": "ONNX Runtime, not optimized", "of": base.name}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1))


if __name__ == "__main__":
    main()
