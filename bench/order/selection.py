"""The first k of lines beside PyTorch, ONNX Runtime and JAX, on one core: `python
bench/order/selection.py`. Contenders take turns in bursts of 20 ms; the best of nine counts.
RESULTS.md has the figures.
"""

from __future__ import annotations

import os

os.environ |= {"XLAC_CACHE": "off", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import numpy as np
import onnxruntime as ort
import torch
from bursts import best_bursts
from onnx import TensorProto, helper

import xlac

CASES = (
    (64, 32000, 40), (1, 50257, 40), (1, 50257, 1), (64, 32000, 1), (64, 32000, 400), (4096, 8, 2),
    (1024, 64, 8), (256, 1000, 5), (16, 4096, 1000), (1, 1000000, 1000),
)  # fmt: skip
ORDERED = CASES[:2]  # these also ascending, descending, constant, and repeating


def line(rows: int, count: int, order: str) -> np.ndarray:
    """Rows of f32 in some order."""
    x = np.random.default_rng(0).standard_normal((rows, count)).astype(np.float32)
    match order:
        case "ascending":
            return np.sort(x, -1)
        case "descending":
            return np.ascontiguousarray(np.sort(x, -1)[:, ::-1])
        case "constant":
            return np.ones_like(x)
        case "one of 16":
            return np.where(np.arange(count) % 16 == 3, x + 100, x).astype(np.float32)
    return x


def model_of(x: np.ndarray, k: int) -> bytes:
    """An ONNX model of one TopK."""
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
        helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("i", TensorProto.INT64, None),
    ]
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=-1)
    count = helper.make_tensor("k", TensorProto.INT64, [1], [k])
    graph = helper.make_graph([node], "topk", values[:1], values[1:], [count])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(model.SerializeToString())


def contenders(x: np.ndarray, k: int) -> dict[str, Callable[[], Any]]:
    """A call of each."""
    text = model_of(x, k)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "topk.onnx")
        file.write_bytes(text)
        ours = xlac.compile(file, threads=1)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    tensor, array = torch.from_numpy(x), jax.numpy.asarray(x)
    top_k = jax.jit(lambda x: jax.lax.top_k(x, k))
    return {
        "xlac": lambda: ours(x),
        "torch": lambda: torch.topk(tensor, k),
        "onnxruntime": lambda: session.run(None, {"x": x}),
        "jax": lambda: jax.block_until_ready(top_k(array)),
    }


def measured(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of a call of each, in its best burst."""
    times = best_bursts(list(calls.values()), clock=time.perf_counter)
    return dict(zip(calls, times, strict=True))


def main() -> None:
    """Prints a row for each shape, k and order."""
    torch.set_num_threads(1)
    print("| lines | k | order | xlac us | torch | onnxruntime | jax | of the best |")
    print("|---|---|---|---|---|---|---|---|")
    for rows, count, k in CASES:
        more = ("ascending", "descending", "constant", "one of 16")
        for order in ("random", *(more if (rows, count, k) in ORDERED else ())):
            seconds_by_name = measured(contenders(line(rows, count, order), k))
            ours, *others = seconds_by_name.values()
            times = " | ".join(f"{seconds * 1e6:.1f}" for seconds in seconds_by_name.values())
            print(f"| {rows}x{count} | {k} | {order} | {times} | {ours / min(others):.2f} |")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
