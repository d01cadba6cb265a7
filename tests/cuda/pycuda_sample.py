"""Runs a sample of conformance through pycuda on the stand-in: a process of its own, as pycuda
links to the driver by name.

test_cuda_pycuda.py starts it with the stand-in where the loader looks first.
"""

from __future__ import annotations

import gc
import os

from cuda_harness import Counts, OnStandin, condition_kernels

from xlac.debug.conformance import check as check_op
from xlac.ops import OPS
from xlac_cuda.device.open import gpu
from xlac_cuda.device.pycuda_gpu import PycudaGpu
from xlac_cuda.run import conditions
from xlac_sdk.conformance import cases, check
from xlac_sdk.source import XlacError
from xlac_sdk.target import Request

GROUPS = ("steps", "add", "exp")
OPERATIONS = ("add", "reduce", "softmax", "while")


def main() -> None:
    os.environ["XLAC_CACHE"] = "off"
    conditions.image = condition_kernels
    counts, backend = Counts(), OnStandin()
    assert type(gpu()) is PycudaGpu
    before = counts.held()
    target = backend.target(Request())
    outcomes = [
        o for case in cases(target) if case.group in GROUPS for o in check(case, backend, target)
    ]
    outcomes += [o for mnemonic in OPERATIONS for o in check_op(OPS[mnemonic], backend)]
    failed = [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not failed, "\n".join(failed)
    gc.collect()
    assert counts.held() == before, (counts.held(), before)
    with gpu().current():
        for wrong, code in (
            (lambda: gpu().load(b"no code" * 20), "XL5213"),
            (lambda: gpu().alloc(1 << 50), "XL5214"),
        ):
            try:
                wrong()
                raise AssertionError(code)
            except XlacError as error:
                assert error.diagnostics[0].code == code, error
    print(f"{len(outcomes)} cases")


if __name__ == "__main__":
    main()
