"""ATen operations one by one: PyTorch's own samples (OpInfo) against eager; what is missing is
listed in unsupported.yaml.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's samples need it

from tests.pytorch import opinfo
from xlac.frontends.torch.complex_tensors import COMPLEX_BUILDERS
from xlac.frontends.torch.decompositions import decompositions
from xlac.frontends.torch.table import BUILDERS

LISTED: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "unsupported.yaml").read_text("utf-8")
)
SOME = (
    "add mul div.floor_rounding where clamp pow remainder bitwise_and gt sum mean amax "
    "argmax var cumsum cummax softmax log_softmax"
    " logsumexp matmul baddbmm linalg.vector_norm index_put index_select gather scatter "
    "scatter_add scatter_reduce.amax masked_fill"
    " nn.functional.embedding cat stack roll flip slice_scatter as_strided diagonal "
    "expand nn.functional.pad.reflect"
    " nn.functional.conv2d nn.functional.conv_transpose1d nn.functional.max_pool2d "
    "nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d"
    " nn.functional.interpolate.bicubic nn.functional.batch_norm nn.functional.group_norm "
    "nn.functional.scaled_dot_product_attention"
    " median searchsorted lgamma erfinv nextafter"
).split()


def core() -> list[str]:
    """Every operation of the core ATen set."""
    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if space == "aten" and hasattr(torch.ops.aten, packet):
            op = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if op is not None and torch.Tag.core in op.tags:
                found.add(str(op))
    return sorted(found)


def test_core_operations_are_there_or_listed() -> None:
    ways = {str(op) for op in decompositions()}
    ways |= {*BUILDERS, *COMPLEX_BUILDERS}
    missing = {op for op in core() if op not in ways}
    assert missing == set(LISTED["core"])
    assert len(missing) <= 0.05 * len(core())


def test_every_builder_names_an_operation_that_pytorch_has() -> None:
    import torch._inductor.inductor_prims  # which adds prims.fma

    pytest.importorskip("transformers.integrations.moe")  # which adds transformers.…

    for name in (*BUILDERS, *COMPLEX_BUILDERS):
        space, packet, overload = name.split(".")
        assert overload in getattr(getattr(torch.ops, space), packet).overloads(), name


def closeness(wanted: torch.Tensor) -> dict[str, Any]:
    """Floats are summed in another order than in eager; halves are rounded at other places too, and
    terms may cancel.
    """
    if not wanted.dtype.is_floating_point and not wanted.dtype.is_complex:
        return {"rtol": 0, "atol": 0}
    if wanted.dtype is not torch.bfloat16:
        return {"rtol": 1e-4, "atol": 1e-4}
    finite = wanted[wanted.isfinite()].abs()
    return {"rtol": 2**-5, "atol": 2**-6 * max(1.0, float(finite.max()) if finite.numel() else 0.0)}


def check(case: opinfo.Case, native: bool, values: bool = True) -> None:
    subgraph = opinfo.imported(case)
    assert not subgraph.unsupported, [f"{u.operation}: {u.reason}" for u in subgraph.unsupported]
    wanted = case.eager()
    runs = [opinfo.interpreted(subgraph, case.tensors)]
    if native:
        runs.append(list(subgraph.program()(list(case.tensors))))
    for found in runs:
        assert len(found) == len(wanted)
        for at, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            if values and subgraph.importer.random.seed is None:
                compare(ours, theirs.resolve_conj(), case, at)


def compare(ours: torch.Tensor, theirs: torch.Tensor, case: opinfo.Case, at: int) -> None:
    """Our result `at` is close to eager's. Where numbers cancel, two ways of computing lose other
    digits: what is not close is at most twice as far from eager's result in float64 as eager's own
    is, and close to that where eager's own is not finite.
    """
    near = closeness(theirs)
    try:
        torch.testing.assert_close(ours, theirs, equal_nan=True, **near)
    except AssertionError:
        exact = case.exact()[at].resolve_conj()
        if not theirs.isfinite().all():
            exact = exact.to(ours.dtype)
            torch.testing.assert_close(ours, exact, equal_nan=True, **closeness(exact))
            return
        other = ~torch.isclose(ours, theirs, **near)
        ours, theirs, exact = (t[other].to(exact.dtype) for t in (ours, theirs, exact))
        if not (exact.isfinite().all() and distance(ours, exact) <= 2 * distance(theirs, exact)):
            raise


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


@pytest.mark.parametrize("name", SOME)
def test_some_operators(name: str) -> None:
    for dtype in (torch.float32, torch.int64):
        for case in opinfo.cases(name, dtype, 2):
            check(case, native=False)


@pytest.mark.parametrize("name", sorted(opinfo.BY_NAME))
def test_operators(name: str, request: pytest.FixtureRequest) -> None:
    """All samples of an operator, interpreted; the first of each type compiled too. A missing
    operator must still fail.

    Of results that PyTorch does not define, types and shapes are compared.
    """
    if not request.config.getoption("--all"):
        pytest.skip("with --all")
    failures = [told for dtype in opinfo.DTYPES for told in failing(name, dtype, native=True)]
    assert bool(failures) == (name in LISTED["operators"]), (
        failures or f"{name} works: take it out of unsupported.yaml"
    )


@pytest.mark.parametrize("name", [n for n, op in opinfo.BY_NAME.items() if opinfo.is_complex(op)])
def test_operators_of_complex_numbers(name: str, request: pytest.FixtureRequest) -> None:
    """The same of the operators that take complex numbers, interpreted."""
    if not request.config.getoption("--all"):
        pytest.skip("with --all")
    failures = failing(name, torch.complex64, native=False)
    assert bool(failures) == (name in LISTED["complex"]), (
        failures or f"{name} works: take it out of unsupported.yaml"
    )


def failing(name: str, dtype: torch.dtype, native: bool) -> list[str]:
    """What is wrong with the samples of an operator; `native`: the first is compiled too."""
    failures = []
    for number, case in enumerate(opinfo.cases(name, dtype, 4)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                first = native and number == 0
                check(case, native=first, values=name not in LISTED["undefined"])
        except Exception as error:
            failures.append(f"{dtype} sample {number}: {type(error).__name__}: {error}")
    return failures
