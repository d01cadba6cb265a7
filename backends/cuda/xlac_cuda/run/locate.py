"""`python -m xlac_cuda.run.locate FOLDER`: runs a program saved by `faults.py` kernel by kernel,
and prints the number of the step that fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.open import gpu
from xlac_cuda.run.executable import CudaExecutable
from xlac_cuda.run.faults import CALL, IMAGE, launched
from xlac_sdk.dtypes import Array
from xlac_sdk.programs import portable
from xlac_sdk.programs.program import Slot


def main(folder: Path) -> int | None:
    """The failing step's number among those that launch something; None if none fails."""
    program, target = portable.read(folder)
    recorded = json.loads((folder / CALL).read_text(encoding="utf-8"))
    inputs = {
        slot.name: _array(folder / str(number), slot, shape)
        for number, (slot, shape) in enumerate(zip(program.inputs, recorded["inputs"], strict=True))
    }
    outputs = {
        slot.name: np.empty(shape, slot.dtype.numpy)
        for slot, shape in zip(program.outputs, recorded["outputs"], strict=True)
    }
    executable = CudaExecutable(folder / IMAGE, program, target, gpu(recorded["device"]))
    try:
        executable.run(inputs, outputs)
    except DeviceError as error:
        return next(
            (number for number, step in enumerate(launched(program)) if step is error.step), None
        )
    return None


def _array(file: Path, slot: Slot, shape: list[int]) -> Array:
    """A saved array, or zeros if it was on the device."""
    if not file.exists():
        return np.zeros(shape, slot.dtype.numpy)
    return np.frombuffer(file.read_bytes(), slot.dtype.numpy).reshape(shape)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
