"""xlac on its cpu target: the workload's ONNX file compiled in the process, called with the suite's arrays from Python."""
import os

import protocol

os.environ.setdefault("XLAC_CACHE", "off")        # compile times are cold
import importlib  # noqa: E402
import pkgutil  # noqa: E402

import llvmlite.binding  # noqa: E402, F401
import xlac.driver  # noqa: E402
from xlac.frontends.onnx.file.messages import messages  # noqa: E402

ROOMS = "xlac.codegen xlac.frontends.onnx xlac.fusion xlac.memory xlac.passes xlac.recompute xlac.cache xlac.runtime xlac_cpu"

# modules that are imported when they are needed: here before the clock starts, as the others' are
for room in map(importlib.import_module, ROOMS.split()):
    for found in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        importlib.import_module(found.name)
messages()


def prepare(task):
    if not task.meta["has_onnx"]:
        raise protocol.Unsupported("no ONNX form (training step)")
    run = xlac.compile(task.model, threads=task.threads)
    arrays = task.arrays("inputs")
    inputs = [arrays[name] for name in run.inputs]
    first = run(*inputs)
    first = list(first.values()) if isinstance(first, dict) else [first]
    return protocol.Prepared(lambda: run(*inputs), lambda: first)


protocol.serve(prepare)
