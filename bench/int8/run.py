"""Quantized models beside ONNX Runtime and beside our own f32, on one thread, as a table:

    python bench/int8/run.py [--only TEXT] [--bursts 9]

Models come of seeded weights (`models.py`) and are quantized by onnxruntime.quantization, as
DequantizeLinear and QuantizeLinear (qdq) and as QLinear operators (qop): u8 activations, i8 weights
by channel; bert with ranges found at each call too (dynamic). Bursts of all programs take turns; a
time is the best burst's CPU time of the process, which busy neighbours disturb less than the wall
clock. OpenVINO takes part where it is installed and reads the model. `differ` is the share of the
results that are not ONNX Runtime's, to 1e-5 of the largest, and `most` by how much of that.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnxruntime
from bursts import best_bursts
from models import MODELS, Array, Builder
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

import xlac

FORMS = {"f32": None, "qdq": QuantFormat.QDQ, "qop": QuantFormat.QOperator, "dynamic": None}
DYNAMIC = ("bert",)
BURST = 0.03  # seconds


class Drawn(CalibrationDataReader):  # type: ignore[misc]
    """Normal numbers to calibrate by."""

    def __init__(self, shape: list[int]) -> None:
        rng = np.random.default_rng(1)
        self.left = [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(3)]

    def get_next(self) -> Any:
        """The next inputs by name; None at the end."""
        return self.left.pop() if self.left else None


def openvino(file: Path, x: Array) -> Callable[[], Any] | None:
    """A call of OpenVINO's on one thread; None where it is not installed or refuses the model."""
    try:
        import openvino as peer
    except ImportError:
        return None
    options = {
        "INFERENCE_NUM_THREADS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # else floats are halved where the processor has bf16
    }
    try:
        request = peer.Core().compile_model(file, "CPU", options).create_infer_request()
    except RuntimeError:
        return None
    request.set_input_tensor(peer.Tensor(x))
    return lambda: request.infer()


def row(file: Path, x: Array, bursts: int) -> tuple[list[float], Array, Array]:
    """Seconds of ours, ONNX Runtime's and OpenVINO's (0: none); results of the first two."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    compiled = xlac.compile(file, target="cpu", threads=1)

    def ours() -> Any:
        return compiled(x=x)

    def theirs() -> Any:
        return session.run(None, {"x": x})[0]

    result, right = ours(), theirs()
    result = next(iter(result.values())) if isinstance(result, dict) else result
    third = openvino(file, x)
    calls = [ours, theirs, *([third] if third else [])]
    best = best_bursts(calls, bursts, BURST)
    return [*best, *([] if third else [0.0])], np.asarray(result), right


def quantized(plain: Path, file: Path, form: str, shape: list[int]) -> None:
    """Writes a float model in a quantized form."""
    if form == "dynamic":
        quantize_dynamic(plain, file, weight_type=QuantType.QInt8)
        return
    quantize_static(
        plain,
        file,
        Drawn(shape),
        quant_format=FORMS[form],
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def main() -> None:
    """Prints a line for each model and form."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", default="")
    asked.add_argument("--bursts", type=int, default=9)
    options = asked.parse_args()
    logging.disable(logging.CRITICAL)
    print(
        "| model | form | xlac, ms | ORT, ms | ratio | OpenVINO, ms | ratio | f32 / ours "
        "| differ | most |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, make in MODELS.items():
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            b, plain = Builder(), Path(folder) / "f32.onnx"
            shape, output = make(b)
            b.save(plain, shape, output)
            x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
            floats = 0.0
            for form in FORMS:
                if form == "dynamic" and name not in DYNAMIC:
                    continue
                file = Path(folder) / f"{form}.onnx"
                if form != "f32":
                    quantized(plain, file, form, shape)
                (ours, theirs, third), result, right = row(file, x, options.bursts)
                floats = floats or ours
                distance = np.abs(result - right) / max(float(np.abs(right).max()), 1e-30)
                beside = f"{third * 1e3:.3f} | {ours / third:.2f}" if third else "- | -"
                print(
                    f"| {name} | {form} | {ours * 1e3:.3f} | {theirs * 1e3:.3f} | "
                    f"{ours / theirs:.2f} | {beside} | {floats / ours:.2f} | "
                    f"{np.mean(distance > 1e-5):.4f} | {distance.max():.4f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
