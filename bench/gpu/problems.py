"""What the GPU benchmark measures: one neutral definition a workload, in the words of every
contender.

A workload states its operands, its model as a spec, the same mathematics as functions of PyTorch
and JAX, and in float64 NumPy. `least_bytes` and `flops` are what the mathematics cannot do without.
Sizes come in two scales: "full" runs well past the caches of an H200, "small" proves on any machine
that all say the same. Whole models are those of the peers' suite (`../peers/workloads`), which xlac
reads as ONNX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Workload:
    """One problem of fixed sizes.

    `operands` maps a name to (shape, dtype, scale of the normal distribution); `torch` and `jax`
    are sources of an expression over the operands' names (`F` is torch.nn.functional, `jnp`, `lax`
    and `nn` are JAX's); `spec` is the whole YAML. `tolerance` bounds ||result - reference|| /
    ||reference||.
    """

    name: str
    family: str
    operands: Mapping[str, tuple[tuple[int, ...], str, float]]
    spec: str
    torch: str
    jax: str
    reference: Callable[..., np.ndarray]
    flops: float
    tolerance: float
    precision: str = "default"  # "fast": every contender may use tf32
    model: Any = None  # a workload of the peers' suite, for whole models
    options: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self) -> Arrays:
        """Operands as float32, already rounded to their type; the same for every contender."""
        rng = np.random.default_rng([ord(c) for c in self.name])
        made = {}
        for name, (shape, dtype, scale) in self.operands.items():
            array = rng.standard_normal(shape, np.float32) * np.float32(scale)
            made[name] = rounded(array, dtype)
        return made

    @property
    def least_bytes(self) -> int:
        """Every operand read once and the result, of the first operand's type, written once."""
        read = sum(math.prod(shape) * WIDTH[dtype] for shape, dtype, _ in self.operands.values())
        return (
            read
            + int(self.options["result_elements"]) * WIDTH[next(iter(self.operands.values()))[1]]
        )


WIDTH = {"f32": 4, "bf16": 2, "f16": 2}


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values that the type holds exactly."""
    if dtype == "f16":
        return array.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = array.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return array


def spec(
    name: str,
    inputs: Mapping[str, tuple[tuple[int, ...], str, float]],
    graph: Mapping[str, str],
    precision: str = "default",
) -> str:
    """A spec of operands and named expressions; the last is the output."""
    lines = ["xlac: 1", f"model: {name}", f"precision: {precision}", "inputs:"]
    lines += [
        f'  {key}: "{dtype}[{", ".join(map(str, shape))}]"'
        for key, (shape, dtype, _) in inputs.items()
    ]
    lines += [
        "graph:",
        *(f"  {key}: {text}" for key, text in graph.items()),
        f"outputs: [{list(graph)[-1]}]",
    ]
    return "\n".join(lines) + "\n"


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def memory_bound(small: bool) -> Iterator[Workload]:
    """Chains, reductions and rows: bytes are what they cost."""
    n = 1 << (12 if small else 27)
    rows, columns = (48, 320) if small else (16384, 8192)

    def make(
        name: str,
        operands: Any,
        graph: dict[str, str],
        torch: str,
        jax: str,
        reference: Any,
        flops: float,
        results: int,
    ) -> Workload:
        tolerance = 1e-2 if "bf16" in {d for _, d, _ in operands.values()} else 1e-5
        return Workload(
            name,
            "memory",
            operands,
            spec(name, operands, graph),
            torch,
            jax,
            reference,
            flops,
            tolerance,
            options={"result_elements": results},
        )

    flat = dict.fromkeys("xyz", ((n,), "f32", 1.0))
    table = {"x": ((rows, columns), "f32", 1.0)}
    yield make(
        "copy_scale",
        {"x": flat["x"]},
        {"y": "x * 2.0"},
        "x * 2.0",
        "x * 2.0",
        lambda x: x * 2,
        n,
        n,
    )
    yield make(
        "elementwise_chain",
        {k: flat[k] for k in "xy"},
        {
            "a": 'gelu(x, approximate="tanh")',
            "b": "clip(a * y + 0.1, low=-2.0, high=2.0)",
            "out": "sigmoid(b) * x - abs(y) * 0.25",
        },
        "torch.sigmoid(torch.clamp(F.gelu(x, approximate='tanh') * y + 0.1, -2.0, 2.0)) * x - torch.abs(y) * 0.25",
        "nn.sigmoid(jnp.clip(nn.gelu(x, approximate=True) * y + 0.1, -2.0, 2.0)) * x - jnp.abs(y) * 0.25",
        lambda x, y: x / (1 + np.exp(-np.clip(_gelu_tanh(x) * y + 0.1, -2, 2))) - np.abs(y) * 0.25,
        30.0 * n,
        n,
    )
    yield make(
        "mul_add_reduce",
        flat,
        {"s": "sum(x + y * z)"},
        "(x + y * z).sum()",
        "(x + y * z).sum()",
        lambda x, y, z: (x + y * z).sum(),
        3.0 * n,
        1,
    )
    yield make(
        "row_sum",
        table,
        {"s": "sum(x, axis=1)"},
        "x.sum(1)",
        "x.sum(1)",
        lambda x: x.sum(1),
        rows * columns,
        rows,
    )
    yield make(
        "column_sum",
        table,
        {"s": "sum(x, axis=0)"},
        "x.sum(0)",
        "x.sum(0)",
        lambda x: x.sum(0),
        rows * columns,
        columns,
    )
    yield make(
        "transpose",
        table,
        {"y": "transpose(x, perm=[1, 0])"},
        "x.t().contiguous()",
        "jnp.transpose(x)",
        lambda x: x.T,
        0,
        rows * columns,
    )
    for dtype in ("f32", "bf16"):
        halves = {"x": ((rows, columns), dtype, 1.0)}
        yield make(
            f"softmax_{dtype}",
            halves,
            {"y": "softmax(x, axis=-1)"},
            "F.softmax(x, -1)",
            "nn.softmax(x)",
            _softmax,
            8.0 * rows * columns,
            rows * columns,
        )
        norm = {**halves, "gamma": ((columns,), dtype, 1.0), "beta": ((columns,), dtype, 1.0)}
        yield make(
            f"layernorm_{dtype}",
            norm,
            {"n": "layer_norm(x, epsilon=1e-5, affine=False)", "y": "n * gamma + beta"},
            "F.layer_norm(x, (x.shape[-1],), gamma, beta, 1e-5)",
            "((x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta).astype(x.dtype)",
            lambda x, gamma, beta: (
                (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma
                + beta
            ),
            8.0 * rows * columns,
            rows * columns,
        )


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
        after = {"": lambda x: x, "gelu": _gelu_tanh, "relu": lambda x: np.maximum(x, 0)}[epilogue]

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
                out[b, h] = _softmax(scores) @ v[b, h // share]
            return out

        pairs = queries * keys / (2 if causal else 1)
        name = f"attention_{kind}"
        yield Workload(
            name,
            "attention",
            operands,
            spec(name, operands, {"y": f"attention(q, k, v, causal={causal})"}),
            f"F.scaled_dot_product_attention(q, k, v, is_causal={causal}, enable_gqa={heads != groups})",
            f"nn.dot_product_attention(q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2), is_causal={causal}).swapaxes(1, 2)",
            reference,
            4.0 * batch * heads * pairs * width,
            2e-2,
            options={"result_elements": batch * heads * queries * width},
        )


def models() -> Iterator[Workload]:
    """Whole models of the peers' suite, weights included; the same at both scales."""
    # bench/peers, which `contenders` puts on the path
    from workloads import convolution, dense, transformer

    for make in (
        dense.mlp_small,
        transformer.bert_layer,
        transformer.gpt2_block_decode,
        convolution.resnet50,
    ):
        one = make()
        yield Workload(
            one.name, "model", {}, "", one.torch, one.jax, one.reference, one.flops, 1e-3, model=one
        )


def all_of(small: bool, families: frozenset[str]) -> Iterator[Workload]:
    """The workloads of some families, in the order of the report."""
    makers = {
        "memory": lambda: memory_bound(small),
        "matmul": lambda: matmuls(small),
        "attention": lambda: attentions(small),
        "model": models,
    }
    for family, maker in makers.items():
        if family in families:
            yield from maker()
