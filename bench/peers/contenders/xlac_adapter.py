"""xlac on its cpu target: the workload's ONNX file compiled in the process, called with the suite's arrays from Python."""
import os

import protocol

os.environ.setdefault("XLAC_CACHE", "off")        # compile times are cold
import llvmlite.binding  # noqa: E402, F401 - these are imported when they are needed; here before the clock starts, as others are
import xlac.frontends.onnx.read  # noqa: E402, F401
import xlac.schedule.attention  # noqa: E402, F401
import xlac.schedule.conv  # noqa: E402, F401
import xlac.schedule.dot  # noqa: E402, F401
import xlac.schedule.reduce  # noqa: E402, F401
import xlac_cpu.executable  # noqa: E402, F401
import xlac_cpu.link  # noqa: E402, F401
import xlac_cpu.module  # noqa: E402, F401
from xlac.compiler import compile  # noqa: E402
from xlac.frontends.onnx.messages import messages  # noqa: E402

messages()


def prepare(task):
    if not task.meta["has_onnx"]:
        raise protocol.Unsupported("no ONNX form (training step)")
    run = compile(task.model, threads=task.threads)
    arrays = task.arrays("inputs")
    inputs = [arrays[name] for name in run.inputs]
    first = run(*inputs)
    first = list(first.values()) if isinstance(first, dict) else [first]
    return protocol.Prepared(lambda: run(*inputs), lambda: first)


protocol.serve(prepare)
