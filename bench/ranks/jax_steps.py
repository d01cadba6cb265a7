"""Times training steps of JAX among processes, by gloo: `jax_steps.py MODEL RANKS`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from trained_models import CLASSES, HEADS, LAYERS, MODEL, WIDTH, batch

STEPS, REPEATS = 4, 15
ADDRESS = "127.0.0.1:29541"


def parameters(name: str) -> Any:
    """Initial weights, by layer."""
    import numpy as np

    rng = np.random.default_rng(0)

    def linear(inside: int, outside: int) -> dict[str, Any]:
        w = rng.standard_normal((inside, outside)).astype(np.float32) / inside**0.5
        return {"w": w, "b": np.zeros(outside, np.float32)}

    if name == "mlp":
        return [linear(784, WIDTH), linear(WIDTH, WIDTH), linear(WIDTH, CLASSES)]
    ones, zeros = np.ones(MODEL, np.float32), np.zeros(MODEL, np.float32)
    return [
        {n: linear(MODEL, MODEL) for n in "qkvo"}
        | {"up": linear(MODEL, 4 * MODEL), "down": linear(4 * MODEL, MODEL)}
        | {n: {"w": ones, "b": zeros} for n in ("n1", "n2")}
        for _ in range(LAYERS)
    ]


def loss_of(name: str) -> Any:
    """The loss of weights and a batch."""
    import jax
    import jax.numpy as jnp

    def linear(p: Any, x: Any) -> Any:
        return x @ p["w"] + p["b"]

    def norm(p: Any, x: Any) -> Any:
        gap = x - x.mean(-1, keepdims=True)
        return gap * jax.lax.rsqrt((gap * gap).mean(-1, keepdims=True) + 1e-5) * p["w"] + p["b"]

    def layer(p: Any, x: Any) -> Any:
        n = norm(p["n1"], x)
        b, t, _ = x.shape
        q, k, v = (linear(p[one], n).reshape(b, t, HEADS, -1) for one in "qkv")
        a = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, MODEL)
        r = x + linear(p["o"], a)
        up = jax.nn.gelu(linear(p["up"], norm(p["n2"], r)), approximate=False)
        return r + linear(p["down"], up)

    def mlp(weights: Any, x: Any, y: Any) -> Any:
        first, second, last = weights
        out = linear(last, jax.nn.relu(linear(second, jax.nn.relu(linear(first, x)))))
        return -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], 1).mean()

    def transformer(weights: Any, x: Any, y: Any) -> Any:
        out = x
        for one in weights:
            out = layer(one, out)
        return ((out - y) ** 2).mean()

    return mlp if name == "mlp" else transformer


def run(rank: int, ranks: int, name: str) -> None:
    """One rank: steps of a model by Adam, on its part of the batch. Rank 0 prints the line."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(ADDRESS, ranks, rank)
    mesh = jax.make_mesh((ranks,), ("data",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    by_rows = NamedSharding(mesh, PartitionSpec("data"))

    def shared(array: Any) -> Any:
        return jax.make_array_from_callback(array.shape, everywhere, lambda at: array[at])

    def divided(array: Any) -> Any:
        return jax.make_array_from_callback(array.shape, by_rows, lambda at: array[at])

    weights = jax.tree.map(shared, parameters(name))
    first = jax.tree.map(shared, jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), weights))
    state = (weights, first, jax.tree.map(lambda a: a + 0, first), shared(np.float32(0)))
    x, y = (divided(array) for _, array in sorted(batch(name).items()))
    gradients = jax.value_and_grad(loss_of(name))

    def update(state: Any, x: Any, y: Any) -> Any:
        weights, first, second, count = state
        loss, g = gradients(weights, x, y)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, g)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, g)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        weights = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, first, second
        )
        return (weights, first, second, count), loss

    step = jax.jit(update, donate_argnums=0)
    for _ in range(3):
        state, loss = step(state, x, y)
    jax.block_until_ready(state)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(STEPS):
            state, loss = step(state, x, y)
            loss.block_until_ready()
        jax.block_until_ready(state)
        times.append((time.perf_counter() - began) / STEPS)
    times.sort()
    if rank == 0:
        middle = times[len(times) // 2]
        ending = f"{times[0] * 1e3:.2f},{middle * 1e3:.2f},{float(loss):.5f}"
        print(f"jax gloo,{name},{ranks},{ending}")


def main() -> None:
    """Starts the ranks, each on a core of its own, and waits for them."""
    name, ranks = sys.argv[1], int(sys.argv[2])
    if len(sys.argv) > 3:
        return run(int(sys.argv[3]), ranks, name)
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    env = os.environ | {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1"}
    cores = sorted(os.sched_getaffinity(0))
    running = [
        subprocess.Popen(
            [
                *("taskset", "-c", str(cores[rank % len(cores)])),
                *(sys.executable, __file__, name, str(ranks), str(rank)),
            ],
            env=env,
        )
        for rank in range(ranks)
    ]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit("a rank failed")


if __name__ == "__main__":
    main()
