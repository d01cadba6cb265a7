"""Workloads whose time is that of their products: matrices, alone and with what usually follows,
and attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from workload import Workload, gelu_tanh, softmax, spec


def matmuls(small: bool) -> Iterator[Workload]:
    """Products of matrices, alone and with what usually follows."""

    def make(
        name: str,
        m: int,
        k: int,
        n: int,
        dtype: str,
        epilogue: str = "",
        precision: str = "default",
    ) -> Workload:
        operands = {"a": ((m, k), dtype, 1.0), "b": ((k, n), dtype, k**-0.5)}
        texts = {
            "": ("a @ b", "a @ b", "a @ b"),
            "gelu": (
                'gelu(a @ b + c, approximate="tanh")',
                "F.gelu(a @ b + c, approximate='tanh')",
                "nn.gelu(a @ b + c, approximate=True)",
            ),
            "relu": ("relu(a @ b + c)", "F.relu(a @ b + c)", "nn.relu(a @ b + c)"),
        }[epilogue]
        if epilogue:
            operands["c"] = ((n,), dtype, 1.0)
        after = {"": lambda x: x, "gelu": gelu_tanh, "relu": lambda x: np.maximum(x, 0)}[epilogue]

        def reference(a: np.ndarray, b: np.ndarray, c: Any = 0.0) -> np.ndarray:
            return np.asarray(after(a @ b + c))

        tolerance = 2e-2 if dtype != "f32" else 2e-3 if precision == "fast" else 1e-5
        return Workload(
            name,
            "matmul",
            operands,
            spec(name, operands, {"y": texts[0]}, precision),
            texts[1],
            texts[2],
            reference,
            2.0 * m * k * n,
            tolerance,
            precision,
            options={"result_elements": m * n},
        )

    if small:
        for dtype in ("f32", "bf16"):
            yield make(f"matmul_{dtype}_96", 96, 160, 72, dtype)
        yield make("matmul_bf16_gelu_96", 96, 160, 72, "bf16", "gelu")
        yield make("matmul_bf16_1x256", 1, 256, 96, "bf16")
        return
    yield make("matmul_f32_2048", 2048, 2048, 2048, "f32")
    yield make("matmul_f32_4096", 4096, 4096, 4096, "f32")
    yield make("matmul_tf32_4096", 4096, 4096, 4096, "f32", precision="fast")
    for size in (4096, 8192):
        yield make(f"matmul_bf16_{size}", size, size, size, "bf16")
        yield make(f"matmul_bf16_gelu_{size}", size, size, size, "bf16", "gelu")
    yield make("matmul_bf16_relu_512", 512, 4096, 4096, "bf16", "relu")
    yield make("matmul_bf16_1x4096", 1, 4096, 4096, "bf16")
    yield make("matmul_bf16_16x4096", 16, 4096, 4096, "bf16")


def attentions(small: bool) -> Iterator[Workload]:
    """Prefill (many queries, causal) and decode (one query a sequence, grouped heads)."""
    shapes = (
        {"prefill": (1, 2, 2, 24, 24, 16), "decode": (2, 4, 2, 1, 40, 16)}
        if small
        else {"prefill": (4, 32, 32, 2048, 2048, 128), "decode": (16, 32, 8, 1, 8192, 128)}
    )
    for kind, (batch, heads, groups, queries, keys, width) in shapes.items():
        operands = {
            "q": ((batch, heads, queries, width), "bf16", 1.0),
            "k": ((batch, groups, keys, width), "bf16", 1.0),
            "v": ((batch, groups, keys, width), "bf16", 1.0),
        }
        causal = kind == "prefill"

        def reference(
            q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = causal
        ) -> np.ndarray:
            share = q.shape[1] // k.shape[1]
            out = np.empty(q.shape)
            for b, h in np.ndindex(q.shape[:2]):
                scores = q[b, h] @ k[b, h // share].T / math.sqrt(q.shape[-1])
                if causal:
                    scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
                out[b, h] = softmax(scores) @ v[b, h // share]
            return out

        pairs = queries * keys / (2 if causal else 1)
        name = f"attention_{kind}"
        yield Workload(
            name,
            "attention",
            operands,
            spec(name, operands, {"y": f"attention(q, k, v, causal={causal})"}),
            f"F.scaled_dot_product_attention(q, k, v, is_causal={causal}, "
            f"enable_gqa={heads != groups})",
            "nn.dot_product_attention(q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2), "
            f"is_causal={causal}).swapaxes(1, 2)",
            reference,
            4.0 * batch * heads * pairs * width,
            2e-2,
            options={"result_elements": batch * heads * queries * width},
        )
