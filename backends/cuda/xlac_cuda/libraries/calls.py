"""The libraries behind a program's calls, loaded only if a program has such calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xlac_cuda.device.gpu import Gpu
from xlac_cuda.plan import Arrays, Whole
from xlac_sdk.libraries.attention import ATTENTION
from xlac_sdk.libraries.convolution import CONVOLUTION
from xlac_sdk.libraries.findings import Findings, Nothing
from xlac_sdk.libraries.product import PRODUCT
from xlac_sdk.programs.program import Call, Program, Step, walk
from xlac_sdk.source import Diagnostic, UnsupportedError

if TYPE_CHECKING:  # imported here, as most programs need none
    from xlac_cuda.libraries.cudnn_calls import CudnnCalls
    from xlac_cuda.libraries.products import MatrixProducts

NEEDS = {PRODUCT: "cublasLt", CONVOLUTION: "cudnn", ATTENTION: "cudnn"}
"""The library of each call, by its name in manifests."""


def needed(program: Program) -> tuple[str, ...]:
    """The libraries that a program calls, by their names in manifests."""
    return tuple(sorted({NEEDS[name] for name in _calls(program.every_step)}))


class Libraries:
    """The libraries that one program calls, on one GPU. The context must be current in every
    method.
    """

    def __init__(self, gpu: Gpu, program: Program) -> None:
        calls = _calls(program.steps)
        self.findings: Findings = Nothing()
        self._open: dict[str, MatrixProducts | CudnnCalls] = {}
        try:
            # a program that calls one library does not load the bindings of the other
            if PRODUCT in calls:
                from xlac_cuda.libraries.products import MatrixProducts

                self._open["cublasLt"] = MatrixProducts(gpu)
            if calls - {PRODUCT}:
                from xlac_cuda.libraries.cudnn_calls import CudnnCalls

                self._open["cudnn"] = CudnnCalls(gpu, ATTENTION in calls)
        except BaseException:
            self.close()
            raise

    def __call__(self, whole: Whole, arrays: Arrays) -> Callable[[int], None]:
        """Prepares one call of the program, and returns a function that submits it to a stream."""
        library = self._open.get(NEEDS.get(whole.step.name, ""))
        if library is None:
            raise UnsupportedError(
                Diagnostic("XL5025", f"the device knows no operation '{whole.step.name}'")
            )
        return library(whole, arrays, self.findings)

    def close(self) -> None:
        """Releases everything."""
        while self._open:
            self._open.popitem()[1].close()


def _calls(steps: tuple[Step, ...]) -> set[str]:
    """The names of the library calls in some steps."""
    return {step.name for step in walk(steps) if isinstance(step, Call) and step.name in NEEDS}
