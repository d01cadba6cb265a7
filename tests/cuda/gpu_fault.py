"""A kernel that writes far outside on this machine's GPU: xlac names it, in a process that ends
with its context.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac_cuda.backend import CudaBackend
from xlac_cuda.device.errors import DeviceError
from xlac_sdk.target import Request

FAR = 1 << 45  # bytes: mapped by nobody


class Planted(CudaBackend):
    """The last kernel of a program writes outside."""

    def build(self, sources: dict[str, str], folder: Path) -> Path:  # type: ignore[override]
        ((name, text),) = sources.items()
        at = text.index("{", text.rindex("__global__")) + 1
        return super().build(
            {name: f"{text[:at]}\n*(volatile float *)((char *)y + {FAR}ll) = 1.0f;{text[at:]}"},
            folder,
        )


def main() -> int:
    backend = Planted()
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "two_steps.yaml")
        spec.write_text(
            "xlac: 1\nmodel: two_steps\ninputs:\n  x: f32[8, 8]\ngraph:\n  a: x @ x\n  y: "
            "sum(exp(a))\noutputs: [y]\n"
        )
        model = executable(lower(load(spec), backend.target(Request())), backend)
        try:
            model(np.zeros((8, 8), np.float32))
        except DeviceError as error:
            (found,) = error.diagnostics
            print(found)
            return (
                0
                if found.code == "XL5215" and found.span is not None and found.span.line == 7
                else 1
            )
    print("nothing failed")
    return 1


if __name__ == "__main__":
    sys.exit(main())
