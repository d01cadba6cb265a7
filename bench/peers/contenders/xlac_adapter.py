"""xlac on its cpu target: the workload's file compiled in the process, called with the suite's arrays from Python."""
import os

import protocol

os.environ.setdefault("XLAC_CACHE", "off")        # compile times are cold
import importlib  # noqa: E402
import json  # noqa: E402
import pkgutil  # noqa: E402

import jinja2  # noqa: E402, F401
import llvmlite.binding  # noqa: E402, F401
import numpy as np  # noqa: E402
import xlac.driver  # noqa: E402
from xlac.frontends.onnx.file.messages import messages  # noqa: E402

ROOMS = "xlac.codegen xlac.frontends.onnx xlac.fusion xlac.memory xlac.passes xlac.recompute xlac.cache xlac.runtime xlac_cpu"
if json.loads((protocol._args.folder / "meta.json").read_text()).get("step"):
    ROOMS += " xlac.autodiff xlac.batching xlac.spec xlac.training"      # of a trainer, which inference does not import

# modules that are imported when they are needed: here before the clock starts, as the others' are
for room in map(importlib.import_module, ROOMS.split()):
    for found in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        importlib.import_module(found.name)
messages()


def prepare(task):
    if task.meta.get("step"):
        import step_row
        return step_row.prepare(task, "xlac")
    if task.meta["train"]:
        return _prepare_training(task)
    run = xlac.compile(task.model, threads=task.threads)
    arrays = task.arrays("inputs")
    inputs = [arrays[name] for name in run.inputs]
    first = run(*inputs)
    first = list(first.values()) if isinstance(first, dict) else [first]
    return protocol.Prepared(lambda: run(*inputs), lambda: first)


def _prepare_training(task):
    """The step that JAX exported as StableHLO, its weights those of the step before."""
    file = task.folder / "step.mlir"
    if not file.exists():
        raise protocol.Unsupported("no StableHLO form")
    run = xlac.compile(file, threads=task.threads)
    state, inputs = (list(task.arrays(kind).values()) for kind in ("step_weights", "step_inputs"))

    def call():
        loss, *state[:] = run(*state, *inputs).values()
        return loss

    back = lambda w: w.transpose(3, 2, 0, 1) if task.meta.get("turned") and w.ndim == 4 else w
    first = [np.array(call()), *(np.array(back(w)) for w in state)]
    return protocol.Prepared(call, lambda: first)


protocol.serve(prepare)
