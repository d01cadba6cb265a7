"""Workloads whose time is that of their bytes: chains, reductions, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from workload import Operand, Workload, gelu_tanh, softmax, spec


def memory_bound(small: bool) -> Iterator[Workload]:
    """Chains, reductions and rows: bytes are what they cost."""
    rows, columns = (48, 320) if small else (16384, 8192)
    yield from elementwise(1 << (12 if small else 27))
    yield from reductions(rows, columns)
    for dtype in ("f32", "bf16"):
        yield from normalizations(rows, columns, dtype)


def elementwise(n: int) -> Iterator[Workload]:
    """Chains of elementwise operations over n elements, and their sum."""
    flat: dict[str, Operand] = dict.fromkeys("xyz", ((n,), "f32", 1.0))
    yield _workload(
        "copy_scale",
        {"x": flat["x"]},
        {"y": "x * 2.0"},
        ("x * 2.0", "x * 2.0"),
        lambda x: x * 2,
        n,
        n,
    )
    yield _workload(
        "elementwise_chain",
        {k: flat[k] for k in "xy"},
        {
            "a": 'gelu(x, approximate="tanh")',
            "b": "clip(a * y + 0.1, low=-2.0, high=2.0)",
            "out": "sigmoid(b) * x - abs(y) * 0.25",
        },
        (
            (
                "torch.sigmoid(torch.clamp(F.gelu(x, approximate='tanh') * y + 0.1, -2.0, 2.0)) * x"
                " - torch.abs(y) * 0.25"
            ),
            (
                "nn.sigmoid(jnp.clip(nn.gelu(x, approximate=True) * y + 0.1, -2.0, 2.0)) * x"
                " - jnp.abs(y) * 0.25"
            ),
        ),
        lambda x, y: x / (1 + np.exp(-np.clip(gelu_tanh(x) * y + 0.1, -2, 2))) - np.abs(y) * 0.25,
        30.0 * n,
        n,
    )
    yield _workload(
        "mul_add_reduce",
        flat,
        {"s": "sum(x + y * z)"},
        ("(x + y * z).sum()", "(x + y * z).sum()"),
        lambda x, y, z: (x + y * z).sum(),
        3.0 * n,
        1,
    )


def reductions(rows: int, columns: int) -> Iterator[Workload]:
    """Sums along either axis of a table, and the table transposed."""
    table: dict[str, Operand] = {"x": ((rows, columns), "f32", 1.0)}
    yield _workload(
        "row_sum",
        table,
        {"s": "sum(x, axis=1)"},
        ("x.sum(1)", "x.sum(1)"),
        lambda x: x.sum(1),
        rows * columns,
        rows,
    )
    yield _workload(
        "column_sum",
        table,
        {"s": "sum(x, axis=0)"},
        ("x.sum(0)", "x.sum(0)"),
        lambda x: x.sum(0),
        rows * columns,
        columns,
    )
    yield _workload(
        "transpose",
        table,
        {"y": "transpose(x, perm=[1, 0])"},
        ("x.t().contiguous()", "jnp.transpose(x)"),
        lambda x: x.T,
        0,
        rows * columns,
    )


def normalizations(rows: int, columns: int, dtype: str) -> Iterator[Workload]:
    """Softmax and layer normalization of the rows of a table."""
    table: dict[str, Operand] = {"x": ((rows, columns), dtype, 1.0)}
    yield _workload(
        f"softmax_{dtype}",
        table,
        {"y": "softmax(x, axis=-1)"},
        ("F.softmax(x, -1)", "nn.softmax(x)"),
        softmax,
        8.0 * rows * columns,
        rows * columns,
    )
    yield _workload(
        f"layernorm_{dtype}",
        {**table, "gamma": ((columns,), dtype, 1.0), "beta": ((columns,), dtype, 1.0)},
        {"n": "layer_norm(x, epsilon=1e-5, affine=False)", "y": "n * gamma + beta"},
        (
            "F.layer_norm(x, (x.shape[-1],), gamma, beta, 1e-5)",
            (
                "((x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)"
                " * gamma + beta).astype(x.dtype)"
            ),
        ),
        lambda x, gamma, beta: (
            (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma
            + beta
        ),
        8.0 * rows * columns,
        rows * columns,
    )


def _workload(
    name: str,
    operands: Mapping[str, Operand],
    graph: Mapping[str, str],
    sources: tuple[str, str],
    reference: Callable[..., np.ndarray],
    flops: float,
    results: int,
) -> Workload:
    """`sources` are those of PyTorch and of JAX; `results` counts the elements of the result."""
    return Workload(
        name,
        "memory",
        operands,
        spec(name, operands, graph),
        *sources,
        reference,
        flops,
        1e-2 if "bf16" in {d for _, d, _ in operands.values()} else 1e-5,
        options={"result_elements": results},
    )
