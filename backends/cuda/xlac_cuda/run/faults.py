"""Finds the kernel that failed, and its line of the spec, by running the program again kernel by
kernel in another process.

A failing kernel destroys its context, which does not tell which of a graph's kernels it was.
Recording progress in a graph would slow down every call; this has no cost until a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.launch import symbol
from xlac_sdk.programs import portable
from xlac_sdk.programs.program import Call, Launch, Program, walk
from xlac_sdk.source import Diagnostic
from xlac_sdk.target import Target

if TYPE_CHECKING:
    from xlac_cuda.run.calls import Form

SETTING = "XLAC_CUDA_LOCATE"  # environment variable; 0 disables the second run
DEADLINE = 120  # seconds for all of it
IMAGE, CALL = "image", "call.json"  # files for the other process, besides the program's
MODULE = ("-m", "xlac_cuda.run.locate")


class Faults:
    """The data needed to run a program again. `form` is the last call's."""

    def __init__(self, gpu: Gpu, program: Program, target: Target, image: bytes) -> None:
        self._gpu, self._program, self._target, self._image = gpu, program, target, image
        self._lock = threading.Lock()
        self._tried = False
        self.form: Form | None = None

    def named(self, error: DeviceError, inputs: Mapping[str, Any] | None = None) -> DeviceError:
        """An error of a call, with the kernel's name and its line added if it fails again.

        `inputs` are the call's, by name: host arrays are passed again, device arrays are lost and
        replaced by zeros.
        """
        if not error.is_fault or error.step is not None:
            return error
        with self._lock:
            if self._gpu.fault is None and not self._tried and self.form is not None and _wanted():
                self._tried = True
                self._gpu.fault = self._again(error, self.form, inputs or {})
            return self._gpu.fault.again() if self._gpu.fault is not None else error

    def _again(
        self, error: DeviceError, form: Form, inputs: Mapping[str, Any]
    ) -> DeviceError | None:
        """The error with its kernel; None if nothing fails, or it cannot be tried."""
        with tempfile.TemporaryDirectory(prefix="xlac-") as name:
            folder = Path(name)
            try:
                self._write(folder, form, inputs)
                environment = {**os.environ, SETTING: "0", "XLAC_CUDA_BLOCKING": "1"}
                done = subprocess.run(
                    [sys.executable, *MODULE, name],
                    env=environment,
                    capture_output=True,
                    check=False,
                    timeout=DEADLINE,
                )
                number = json.loads(done.stdout)
            except (OSError, subprocess.SubprocessError, ValueError):
                return None
        steps = launched(self._program)
        if not isinstance(number, int) or not 0 <= number < len(steps):
            return None
        (fault,) = error.diagnostics
        return of_kernel(
            Diagnostic(fault.code, fault.message, hint=AGAIN), error.code, steps[number]
        )

    def _write(self, folder: Path, form: Form, inputs: Mapping[str, Any]) -> None:
        """Writes the program, and the call's arrays."""
        portable.write(folder, self._program, self._target)
        (folder / IMAGE).write_bytes(self._image)
        given = [
            (slot.name, shape, inputs.get(slot.name))
            for slot, shape in zip(self._program.inputs, form.inputs, strict=True)
        ]
        kept = {
            name: value
            for name, shape, value in given
            if isinstance(value, np.ndarray) and value.shape == shape
        }
        for number, (name, _, _) in enumerate(given):
            if name in kept:
                (folder / str(number)).write_bytes(np.ascontiguousarray(kept[name]).tobytes())
        shapes = (
            [list(shape) for _, shape, _ in given],
            [list(shape) for _, shape, _ in form.results],
        )
        facts = {"device": self._gpu.index, "inputs": shapes[0], "outputs": shapes[1]}
        (folder / CALL).write_text(json.dumps(facts), encoding="utf-8")


def _wanted() -> bool:
    """Whether to run again: the user may have disabled it, and in an application that embeds Python
    the application would be started instead.
    """
    return os.environ.get(SETTING) != "0" and Path(sys.executable or "").name.startswith(
        ("python", "pypy")
    )


def launched(program: Program) -> list[Launch | Call]:
    """The steps that a program launches, in order."""
    return [step for step in walk(program.steps) if isinstance(step, Launch | Call)]


def of_kernel(fault: Diagnostic, code: int, step: Launch | Call) -> DeviceError:
    """A fault with the name of what was launched, and the line of the spec that it computes."""
    if isinstance(step, Launch):
        origins = step.origins or step.kernel.origins
        about = f"kernel {symbol(step.kernel)}" + (
            f" ({step.kernel.note})" if step.kernel.note else ""
        )
    else:
        origins, about = (step.origin,) if step.origin else (), f"a library's {step.name}"
    names = ", ".join(list(dict.fromkeys(origin.name for origin in origins))[:3])
    of = f", of {names}" if names else ""
    span = next((origin.span for origin in origins if origin.span), None)
    return DeviceError(
        Diagnostic(fault.code, f"{about}{of}: {fault.message}", span, fault.hint), code, step
    )


AGAIN = (
    "found by running the program again, kernel by kernel, in another process; this one cannot use "
    "the GPU any more"
)
