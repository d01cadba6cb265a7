"""Grids in fewer blocks than they have: the same results, whatever their blocks share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xlac_sdk.conformance import ConformanceCase, cases
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.grid import check, grid, launched
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.lowering.spread import spread
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.source import Origin, Span, UnsupportedError
from xlac_sdk.target import Request, Target

GPU = Target("any", warp=32, block_threads=256, shared_bytes=32 << 10, access_bytes=16)
GRIDS = [
    case
    for case in cases(GPU)
    if case.group == "grids" or case.name.startswith(("a loop", "add scalar"))
]


def results(case: ConformanceCase, most: int) -> dict[str, np.ndarray]:
    program = with_kernels(case.program, lambda kernel: spread(kernel, 32, False, most))
    for kernel in program.kernels:
        check(kernel)
    sizes = of_call(program, case.inputs)
    made = {s.name: np.zeros(s.extents(sizes), s.dtype.numpy) for s in program.outputs}
    Interpreter(program).run(case.inputs, made)
    return made


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("case", GRIDS, ids=[case.name for case in GRIDS])
@pytest.mark.sampled(24)
def test_fewer_blocks_give_the_same(case: ConformanceCase, most: int) -> None:
    wanted = results(case, 0)
    for name, got in results(case, most).items():
        np.testing.assert_array_equal(got, wanted[name])


def test_a_launch_has_at_most_so_many_blocks_and_no_kernel_changes_without_need() -> None:
    every = (spread(k, 32) for case in GRIDS for k in case.program.kernels if not k.sizes)
    kernel = next(kernel for kernel in every if launched(kernel, ())[0] > 3)
    blocks, threads = launched(kernel, ())
    assert launched(spread(kernel, most_blocks=3), ()) == (3, threads)
    assert spread(kernel, most_blocks=blocks) is kernel
    assert grid(kernel) is not None


def test_a_missing_type_is_refused_with_the_operations_and_their_place() -> None:
    target = replace(find("c").target(Request()), dtypes=frozenset(DType) - {DType.F64})
    (case,) = (one for one in cases(GPU) if one.name == "exp scalar")
    kernel = next(
        k for k in case.program.kernels if any(b.dtype is DType.F64 for b in k.parameters)
    )
    place = Span(Path("m.yaml"), 4, 3)
    named = replace(kernel, origins=(Origin("layer.y", place), Origin("layer.z")))
    with pytest.raises(UnsupportedError) as caught:
        legalize(named, target)
    text = str(caught.value)
    assert "m.yaml:4:3" in text and "has no type f64" in text and "XL5010" in text
    assert "'layer.y', 'layer.z'" in text
