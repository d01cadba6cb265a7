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
from xlac_sdk.lowering.fewer_blocks import rows_of_blocks
from xlac_sdk.lowering.grids import grids
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


def results(case: ConformanceCase, most: int, rows: int = 1) -> dict[str, np.ndarray]:
    program = with_kernels(case.program, lambda kernel: spread(kernel, 32, False, most, rows))
    for kernel in program.kernels:
        check(kernel)
    sizes = of_call(program, case.inputs)
    made = {s.name: np.zeros(s.extents(sizes), s.dtype.numpy) for s in program.outputs}
    Interpreter(program).run(case.inputs, made)
    return made


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("case", GRIDS, ids=[case.name for case in GRIDS])
@pytest.mark.sampled(96)
def test_fewer_blocks_give_the_same(case: ConformanceCase, most: int) -> None:
    wanted = results(case, 0)
    for name, got in results(case, most).items():
        np.testing.assert_array_equal(got, wanted[name])


@pytest.mark.parametrize("most, rows", [(1, 2), (2, 2), (2, 1000), (3, 1000)])
@pytest.mark.parametrize("case", GRIDS, ids=[case.name for case in GRIDS])
@pytest.mark.sampled(96)
def test_rows_of_blocks_give_the_same(case: ConformanceCase, most: int, rows: int) -> None:
    wanted = results(case, 0)
    for name, got in results(case, most, rows).items():
        np.testing.assert_array_equal(got, wanted[name])


def test_rows_are_used_when_they_must() -> None:
    every = (spread(k, 32) for case in GRIDS for k in case.program.kernels if not k.sizes)
    kernel = next(kernel for kernel in every if launched(kernel, ())[0] > 5)
    blocks, threads = launched(kernel, ())
    assert spread(kernel, most_blocks=blocks, most_rows=9) is kernel
    count, same = launched(spread(kernel, most_blocks=2, most_rows=1 << 20), ())
    assert rows_of_blocks(count, 2) == (2, -(-blocks // 2)) and same == threads
    assert launched(spread(kernel, most_blocks=2, most_rows=2), ()) == (4, threads)
    assert rows_of_blocks(2, 2) == (2, 1) and rows_of_blocks(99, 0) == (99, 1)


def test_open_sizes_take_rows_only_when_they_must() -> None:
    every = (k for case in cases(GPU) for k in case.program.kernels if k.sizes)
    kernel = next(k for k in every if grid(k) is not None)
    for size in range(0, 1000, 37):
        blocks, _ = launched(kernel, (size,))
        count, _ = launched(spread(kernel, most_blocks=3, most_rows=4), (size,))
        assert count == (blocks if blocks <= 3 else -(-blocks // 3) * 3)


@pytest.mark.parametrize("fact", ["most_buffers", "block_threads", "shared_bytes"])
def test_a_kernel_beyond_a_limit_is_refused(fact: str) -> None:
    def refused(case: ConformanceCase) -> bool:
        try:
            grids(case.program, replace(GPU, **{fact: 2}))
        except UnsupportedError as error:
            assert error.diagnostics[0].code == "XL5010" and ", of 2 that 'any' has" in str(error)
            return True
        return False

    made = [case for case in GRIDS if refused(case)]
    assert made and len(made) < len(GRIDS)
    for case in GRIDS:
        assert all(grid(k) is not None for k in grids(case.program, GPU).kernels)


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
