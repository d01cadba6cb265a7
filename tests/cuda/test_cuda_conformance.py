"""Every case of the SDK's kit and every primitive operation, as CUDA C++ on the stand-in; with
--gpu, on this machine's GPU.

Composites, which expand to primitives alike on every target, and watched runs of everything, take
--all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cuda_harness import ARCH, Counts, OnStandin

from xlac.debug.conformance import check as check_op
from xlac.ir.composite import Composite
from xlac.ops import OPS
from xlac_cuda.architectures import described
from xlac_cuda.backend import CudaBackend
from xlac_sdk.conformance import cases, check
from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

WATCHED = (
    "reduce",
    "softmax",
    "transpose",
    "cumulative",
    "sort",
    "scatter",
    "dot",
    "layer_norm",
    "window",
)
SAMPLED = (
    "softmax",
    "layer_norm",
    "attention",
    "gelu",
    "batch_norm",
    "topk",
    "cumsum",
    "max_pool",
    "rms_norm",
    "lstm",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.config.getoption("--all")
    if "group" in metafunc.fixturenames:
        groups = sorted({case.group for case in cases(described(ARCH))})
        long = pytest.param("grids", marks=pytest.mark.long)
        metafunc.parametrize("group", [long if name == "grids" else name for name in groups])
    if "mnemonic" in metafunc.fixturenames:
        names = [m for m, op in sorted(OPS.items()) if op.samples()]
        metafunc.parametrize(
            "mnemonic",
            [m for m in names if every or not issubclass(OPS[m], Composite) or m in SAMPLED],
        )
    if "watched" in metafunc.fixturenames:
        metafunc.parametrize("watched", sorted(OPS) if every else [m for m in WATCHED if m in OPS])


def of_group(group: str) -> Iterator[ConformanceCase]:
    return (case for case in cases(described(ARCH)) if case.group == group)


@pytest.mark.sampled(40)
def test_the_kit(group: str, backend: CudaBackend) -> None:
    target = backend.target(Request())
    outcomes = [outcome for case in of_group(group) for outcome in check(case, backend, target)]
    failed = [f"{o.case}\n    {o.detail}" for o in outcomes if o.status == "failed"]
    assert outcomes and not failed, "\n".join(failed)


@pytest.mark.sampled(48)
def test_an_operation(mnemonic: str, backend: CudaBackend) -> None:
    outcomes = check_op(OPS[mnemonic], backend)
    failed = [f"{o.case}\n    {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not failed, f"{len(failed)} of {len(outcomes)} cases:\n" + "\n".join(failed)


@pytest.mark.sampled(10)
def test_an_operation_whose_every_access_is_watched(watched: str, counts: Counts) -> None:
    """No race, nothing out of bounds, no shared memory read before it is written, in any order of
    blocks and warps.
    """
    outcomes = check_op(OPS[watched], OnStandin(watched=True))
    failed = [
        f"{o.case}\n    {o.detail}\n    {counts.fault}" for o in outcomes if o.status != "passed"
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", ["reduce", "dot", "scatter", "cumulative"])
@pytest.mark.sampled(4)
def test_any_order_of_blocks_and_warps_will_do(
    name: str, backend: CudaBackend, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_SEED", "11")
    outcomes = check_op(OPS[name], backend)
    failed = [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
    assert not failed, "\n".join(failed)


def test_an_architecture_that_is_none(backend: CudaBackend) -> None:
    with pytest.raises(SourceError, match="XL5202"):
        backend.target(Request(arch="sm_12"))
