"""One contender of steps.py on one row, in a process of its own: JSON lines on stdin and stdout.

    python bench/training/contender.py CONTENDER ROW THREADS FOLDER

FOLDER holds weights.npz and inputs.npz. After the first step, which is what compiling takes, it
says so; then each line `{"seconds": S, "steps": N}` asks for a burst of as many steps as take S
seconds, N at least, and is answered with the quickest: by the clock, and by the processor time of
all threads.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from step_rows import ROWS, StepRow

Step = Callable[[], float]
Arrays = dict[str, Any]
FIRST = 5  # steps whose losses are compared
MEASURED = (".mean", ".variance")  # ends of the names of what batch_norm measures


def torch_step(row: StepRow, compiled: bool, weights: Arrays, inputs: Arrays) -> Step:
    """A step of PyTorch, eager with its fused optimizers, or compiled by inductor."""
    import torch
    from frameworks import Torch
    from networks import NETWORKS

    ops, network = Torch(), NETWORKS[row.network]
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    given = {name: torch.from_numpy(array) for name, array in inputs.items()}
    learned = [t.requires_grad_() for n, t in tensors.items() if not n.endswith(MEASURED)]
    kind, options = row.optimizer
    optimizer = getattr(torch.optim, kind)(learned, **options, fused=None if compiled else True)

    def loss(given: Any) -> Any:
        return network(ops, tensors, **given)

    value = torch.compile(loss) if compiled else loss
    update = torch.compile(optimizer.step) if compiled else optimizer.step

    def step() -> float:
        optimizer.zero_grad()
        loss = value(given)
        loss.backward()
        update()
        return float(loss.detach())

    return step


def jax_step(row: StepRow, weights: Arrays, inputs: Arrays) -> Step:
    """A step of JAX: one jitted function that takes over its arguments."""
    import jax
    import jax.numpy as jnp
    from frameworks import Jax
    from networks import NETWORKS
    from updates import UPDATES

    ops, network = Jax(), NETWORKS[row.network]
    measured = {n: jnp.asarray(a) for n, a in weights.items() if n.endswith(MEASURED)}
    learned = {n: jnp.asarray(a) for n, a in weights.items() if not n.endswith(MEASURED)}
    kind, options = row.optimizer
    first, update = UPDATES[kind]

    def loss(learned: Any, measured: Any, given: Any) -> Any:
        ops.measured.clear()
        value = network(ops, {**learned, **measured}, **given)
        return value, dict(ops.measured)

    def whole(learned: Any, measured: Any, kept: Any, given: Any) -> Any:
        value_and_gradients = jax.value_and_grad(loss, has_aux=True)(learned, measured, given)
        (value, following), gradients = value_and_gradients
        learned, kept = update(learned, gradients, kept, **options)
        return value, learned, following, kept

    run = jax.jit(whole, donate_argnums=(0, 1, 2))
    state = [learned, measured, first(learned)]
    del learned, measured

    def step() -> float:
        value, *state[:] = run(*state, {name: jnp.asarray(a) for name, a in inputs.items()})
        return float(value)

    return step


def xlac_step(row: StepRow, threads: int, weights: Arrays, inputs: Arrays) -> Step:
    """A step of xlac's trainer."""
    from xlac.training.trainer import Trainer

    file = Path(__file__).parent / "models" / f"{row.network}.yaml"
    trainer = Trainer(file, params=row.params, target="cpu", threads=threads)
    trainer.restore({**trainer.state(), **weights})
    return lambda: trainer.step(**inputs)["loss"]


def memory(what: str) -> int:
    """Bytes that this process holds (VmRSS), or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def processor_seconds() -> float:
    """Of this process and those that it started and that have ended."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def imported(name: str, threads: int) -> None:
    """What a user of the contender imports, before anything is measured, and where compiling
    imports more when it first begins, a program of one operation.
    """
    if name.startswith("torch"):
        import torch

        torch.set_num_threads(threads)
    elif name == "jax":
        import jax

        jax.numpy.zeros(1).block_until_ready()
    else:
        import xlac
        import xlac.training.trainer

        xlac.jit(lambda x: x + 1)(np.zeros(1, np.float32))


def begun(name: str, row: StepRow, threads: int, folder: Path) -> tuple[Step, dict[str, Any]]:
    """The step, after its first five, and what they told: losses, seconds and bytes."""
    weights, inputs = (dict(np.load(folder / f"{kind}.npz")) for kind in ("weights", "inputs"))
    before, begin, used = memory("VmRSS"), time.perf_counter(), processor_seconds()
    if name == "jax":
        step = jax_step(row, weights, inputs)
    elif name == "xlac":
        step = xlac_step(row, threads, weights, inputs)
    else:
        step = torch_step(row, name == "inductor", weights, inputs)
    del weights  # the contender has its own
    losses = [step()]
    costs = {
        "compile_seconds": time.perf_counter() - begin,
        "compile_processor_seconds": processor_seconds() - used,
    }
    costs["compile_bytes"] = memory("VmHWM") - before
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
    losses += [step() for _ in range(FIRST - 1)]
    return step, {**costs, "losses": losses, "step_bytes": memory("VmHWM") - before}


def main() -> None:
    """Trains one row as one contender, by the requests of `steps.py` on standard input."""
    name, row, threads, folder = sys.argv[1], ROWS[sys.argv[2]], int(sys.argv[3]), Path(sys.argv[4])
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not disturb the replies
    imported(name, threads)
    step, reply = begun(name, row, threads, folder)
    replies.write(json.dumps(reply) + "\n")
    for line in sys.stdin:
        asked = json.loads(line)
        times: list[float] = []
        used: list[float] = []
        stop = time.perf_counter() + asked["seconds"]
        while len(times) < asked["steps"] or time.perf_counter() < stop:
            start, before = time.perf_counter(), time.process_time()
            step()
            times.append(time.perf_counter() - start)
            used.append(time.process_time() - before)
        reply = {"seconds": min(times), "processor_seconds": min(used), "steps": len(times)}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
