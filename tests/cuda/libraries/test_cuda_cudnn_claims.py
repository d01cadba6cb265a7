"""Where cuDNN is called, and what is said where it is missing, too old, or refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cublaslt_harness import BF16
from cudnn_harness import AskedDnn, Library, attention, conv

from xlac.cache.findings import CachedFindings
from xlac.cache.store import Cache
from xlac_cuda import architectures
from xlac_cuda.libraries import claims, cublaslt, cudnn, cudnn_calls
from xlac_cuda.libraries.cudnn_graph import Operations
from xlac_cuda.libraries.cudnn_names import Attribute, DescriptorKind, Note, Pointwise
from xlac_cuda.libraries.cudnn_plans import CudnnMachine, PlanChoice
from xlac_sdk.dtypes import DType
from xlac_sdk.source import XlacError
from xlac_sdk.target import Request


def refused(match: str) -> XlacError:
    with (
        pytest.raises(XlacError, match=match) as error,
        AskedDnn(conv(1, 5, 5, 4, dtype=BF16, channels_last=True)) as asked,
    ):
        asked.agrees()
    return error.value


def test_without_the_library(dnn: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn, "_files", lambda: iter([Path("libcudnn.so.none")]))
    cudnn.installed.cache_clear()
    error = refused("XL5220")
    assert error.exit_code == 3 and "pip install nvidia-cudnn-cu13" in error.diagnostics[0].hint


def test_a_library_that_is_too_old(dnn: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CUDNN_VERSION", "8907")
    cudnn.installed.cache_clear()
    assert (
        "cuDNN 8.9 is too old: the program calls that of version 9.0"
        in refused("XL5221").diagnostics[0].message
    )


def test_attention_wants_a_newer_library(dnn: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CUDNN_VERSION", "90700")
    cudnn.installed.cache_clear()
    with AskedDnn(conv(1, 5, 5, 4, dtype=BF16, channels_last=True)) as asked:
        asked.agrees()
    with pytest.raises(XlacError, match=r"version 9\.21 or later"):
        AskedDnn(attention(BF16, (2, 20), (2, 20)))


@pytest.mark.parametrize(("status", "code"), [(1001, "XL5221"), (4004, "XL5214"), (5000, "XL5217")])
def test_a_library_that_does_not_start(
    status: int, code: str, dnn: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_CUDNN_CREATE", str(status))
    assert "CUDNN_STATUS_" in refused(code).diagnostics[0].message


def test_what_the_library_does_not_compute(dnn: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CUDNN_REFUSES", "1")
    (told,) = refused("XL5222").diagnostics
    assert (
        "a convolution of bf16[1, 4, 5, 5] by [6, 4, 3, 3] with bias: cuDNN 9.28 has no engine"
        in told.message
        and "+cudnn" in told.hint
    )


# ---- plans ---------------------------------------------------------------------------------------


def test_engines_are_chosen_again_by_number_and_knobs(dnn: Library) -> None:
    found = cudnn.wanted((9, 0))
    operations = Operations(found, CudnnMachine.of(1))
    try:
        x = operations.tensor(DType.F32, (1, 4, 5, 5), (100, 25, 5, 1), 16)
        y = operations.tensor(DType.F32, (1, 4, 5, 5), (100, 25, 5, 1), 16)
        operations.pointwise(Pointwise.RELU_FWD, x, 0, y)
        graph, never = operations.graph(), frozenset({Note.NONDETERMINISTIC})
        first, *_ = operations.suggested(graph, never, 1 << 20)
        assert first.choice == PlanChoice(5, ((24, 1),))
        assert operations.chosen(graph, first.choice, never, 1 << 20) is not None
        for other in (
            PlanChoice(5, ((24, 9),)),
            PlanChoice(1234, ()),
            PlanChoice(7, ()),
            PlanChoice(9, ()),
            PlanChoice(8, ()),
        ):
            assert operations.chosen(graph, other, never, 1 << 20) is None, other
    finally:
        operations.close()


def test_the_standin_refuses_what_the_library_would(dnn: Library) -> None:
    """Attributes of another type, extents that do not agree: what the tests rely on."""
    operations = Operations(cudnn.wanted((9, 0)), CudnnMachine.of(1))
    try:
        with pytest.raises(XlacError, match="does not take 2 elements"):
            operations.final(DescriptorKind.TENSOR, {Attribute.TENSOR_UNIQUE_ID: (1, 2)})
        with pytest.raises(XlacError, match="attribute 901 is missing"):
            operations.final(DescriptorKind.TENSOR, {Attribute.TENSOR_UNIQUE_ID: 1})
        x, kernel, y = (
            operations.tensor(DType.F32, (k, 4, n, n), (4 * n * n, n * n, n, 1), 16)
            for k, n in ((1, 5), (4, 3), (1, 4))
        )
        with pytest.raises(XlacError, match="the result has another extent"):
            operations.convolution(x, kernel, y, (1, 1), (0, 0), (0, 0), (1, 1))
        with pytest.raises(XlacError, match="a value is read before it is written"):
            operations.pointwise(Pointwise.RELU_FWD, operations.like(x), 0, operations.like(x))
            operations.graph()
    finally:
        operations.close()


# ---- what the next process knows -----------------------------------------------------------------


def test_the_next_process_does_not_search(
    dnn: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = []
    for _ in range(2):
        before = dnn("searches")
        with (
            AskedDnn(conv(1, 5, 5, 4, dtype=BF16, channels_last=True)) as asked,
            monkeypatch.context() as patch,
        ):
            # from now on: code for the stand-in is not for others
            patch.setenv("XLAC_CACHE", str(tmp_path))
            asked.agrees()
        searches.append(dnn("searches") - before)
        cudnn_calls._known.clear()
    assert searches == [1, 0]
    assert [e.program for e in Cache(tmp_path, 1 << 20).entries() if "cuDNN" in e.program] == [
        "cuDNN: a convolution of bf16[1, 4, 5, 5] by [6, 4, 3, 3] with bias"
    ]


@pytest.mark.parametrize("told", [
    "", "[]", "no JSON", '{"engine": 5}', '{"engine": "5", "knobs": []}',
    '{"engine": 5, "knobs": [[1]]}', '{"engine": 5, "knobs": 3}', '{"engine": true, "knobs": []}',
    '{"engine": -1, "knobs": []}', '{"engine": 5, "knobs": [[24, 1e3]]}', "[" * 10_000,
])  # fmt: skip
def test_what_is_no_choice_is_not_read(told: str) -> None:
    assert cudnn_calls.choice_from_json(told) is None


def test_choices_are_read_as_they_were_told() -> None:
    choice = PlanChoice(41, ((24, 1), (38, 0)))
    assert cudnn_calls.choice_from_json(cudnn_calls.choice_to_json(choice)) == choice


@pytest.mark.parametrize(
    "other",
    [PlanChoice(1234, ()), PlanChoice(7, ()), PlanChoice(8, ()), PlanChoice(62, ((24, 9),))],
)
def test_engines_that_others_name_are_checked(
    other: PlanChoice, dnn: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that the library does not have, whose sums differ at each call, or that wants more memory
    is not taken.
    """
    monkeypatch.setattr(CachedFindings, "find", lambda *key: cudnn_calls.choice_to_json(other))
    with AskedDnn(conv(1, 5, 5, 4, dtype=BF16, channels_last=True)) as asked:
        asked.agrees()
    assert dnn("engine") == 62


# ---- where calls are wanted ----------------------------------------------------------------------


def test_ahead_of_time_calls_are_asked_for() -> None:
    plain, both = (
        architectures.target(Request(arch=arch)) for arch in ("sm_90a", "sm_90a+cudnn+cublaslt")
    )
    assert not (plain.products or plain.convolutions or plain.attentions)
    assert both.products and both.convolutions and both.attentions
    assert {known.operands for known in both.convolutions if known.rounds} == {DType.F32}


def test_on_this_machines_gpu_the_library_is_called_where_it_is(
    dnn: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(architectures, "_here", lambda *given: "sm_90a")
    monkeypatch.setattr(cublaslt, "installed", lambda: None)
    target = architectures.target(Request())
    assert claims.Claims(
        target.products, target.convolutions, target.attentions
    ) == claims.described(90, blas=False)
    monkeypatch.setenv("STANDIN_CUDNN_VERSION", "90700")
    cudnn.installed.cache_clear()
    target = architectures.target(Request())
    assert target.convolutions and not target.attentions


def test_the_manifest_says_what_an_artefact_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from xlac.cli import status

    spec = tmp_path / "large.yaml"
    spec.write_text(
        "xlac: 1\nmodel: large\nprecision: fast\ninputs:\n  x: bf16[8, 56, 56, 64]\nweights: "
        "{init: {seed: 0}}\n"
        "graph:\n  y: {op: conv2d, in: x, filters: 64, kernel: 3, pad: 1, channels_last: "
        "true}\noutputs: [y]\n"
    )
    for arch, needs in (("sm_90a", []), ("sm_90a+cudnn", ["cudnn"])):
        folder = tmp_path / arch
        assert (
            status(
                [
                    "build",
                    str(spec),
                    "--target",
                    "cuda",
                    "--arch",
                    arch,
                    "--emit",
                    "cu",
                    "-o",
                    str(folder),
                ]
            )
            == 0
        ), capsys.readouterr()
        assert json.loads((folder / "manifest.json").read_text())["needs"] == needs
