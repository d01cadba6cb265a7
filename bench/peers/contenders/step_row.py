"""Training steps of bench/training, for the adapters: one step a call, the losses of the first five as outputs."""
import sys
from pathlib import Path

import numpy as np

import protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))


def prepare(task, mode):
    import contender
    from step_rows import ROWS

    row, weights, inputs = ROWS[task.meta["step"]], task.arrays("weights"), task.arrays("inputs")
    if mode == "xlac":
        step = contender.xlac_step(row, task.threads, weights, inputs)
    elif mode == "jax":
        step = contender.jax_step(row, weights, inputs)
    elif mode in ("eager", "inductor"):
        step = contender.torch_step(row, mode == "inductor", weights, inputs)
    else:
        raise protocol.Unsupported("AOTInductor compiles inference only")
    losses = np.array([step() for _ in range(contender.FIRST)], np.float32)
    return protocol.Prepared(step, lambda: [losses])
