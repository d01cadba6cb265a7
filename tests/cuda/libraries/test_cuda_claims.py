"""Where cuBLASLt is called, and what is said where it is missing, too old, or refuses."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest
from cublaslt_harness import F32, Asked, Library, linear

from xlac_cuda import architectures
from xlac_cuda.libraries import claims, cublaslt
from xlac_sdk.source import SourceError, UnsupportedError, XlacError
from xlac_sdk.target import Request


def refused(match: str) -> XlacError:
    with pytest.raises(XlacError, match=match) as error, Asked(linear(F32, 8, 16, 24)) as asked:
        asked.agrees()
    return error.value


def test_without_the_library(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublaslt, "_files", lambda: iter([Path("libcublasLt.so.none")]))
    cublaslt.installed.cache_clear()
    error = refused("XL5220")
    assert error.exit_code == 3 and "pip install nvidia-cublas" in error.diagnostics[0].hint


def test_a_library_that_is_too_old(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CUBLASLT_VERSION", "111103")
    cublaslt.installed.cache_clear()
    assert "cuBLASLt 11.11 is too old" in refused("XL5221").diagnostics[0].message


@pytest.mark.parametrize(("status", "code"), [(1, "XL5221"), (3, "XL5214"), (13, "XL5217")])
def test_a_library_that_does_not_start(
    status: int, code: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_CUBLASLT_CREATE", str(status))
    assert "CUBLAS_STATUS_" in refused(code).diagnostics[0].message


def test_a_product_that_the_library_does_not_compute(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_CUBLASLT_REFUSES", "1")
    (told,) = refused("XL5222").diagnostics
    assert (
        "f32[8, 16] and f32[16, 24] to f32 with bias" in told.message
        and "CUBLAS_STATUS_NOT_SUPPORTED" in told.message
    )
    assert "+cublaslt" in told.hint


def test_the_standin_refuses_what_the_library_would(library: Library) -> None:
    """Attributes of the wrong width, pointers less aligned than was said: what the tests above rely
    on.
    """
    blas = cublaslt.wanted()
    desc = blas.handle("cublasLtMatmulDescCreate", cublaslt.COMPUTE_32F, 0)
    with pytest.raises(XlacError, match="CUBLAS_STATUS_INVALID_VALUE"):
        blas.set(desc, cublaslt.Desc.TRANSA, ctypes.c_int64(1))
    assert library.complaint == "TRANSA does not take 8 bytes"
    blas("cublasLtMatmulDescDestroy", desc)


# ---- where calls are wanted ----------------------------------------------------------------------


def test_ahead_of_time_calls_are_asked_for() -> None:
    assert not architectures.target(Request(arch="sm_90a")).products
    assert {
        p.workspace for p in architectures.target(Request(arch="sm_90a+cublaslt")).products
    } == {32 << 20}
    assert {p.workspace for p in architectures.target(Request(arch="sm_80+cublaslt")).products} == {
        4 << 20
    }
    with pytest.raises(SourceError, match="has no feature 'cufft'"):
        architectures.target(Request(arch="sm_90a+cufft"))


def test_on_this_machines_gpu_the_library_is_called_where_it_is(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(architectures, "_here", lambda *given: "sm_90a")
    assert architectures.target(Request()).products == claims.described(90).products
    assert not architectures.target(Request(ahead=True)).products
    monkeypatch.setattr(cublaslt, "_files", lambda: iter(()))
    cublaslt.installed.cache_clear()
    assert not architectures.target(Request()).products


def test_the_manifest_says_what_an_artefact_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from xlac.cli import status

    spec = tmp_path / "large.yaml"
    spec.write_text(
        "xlac: 1\nmodel: large\ninputs:\n  x: bf16[1024, 1024]\n  w: bf16[1024, 1024]\ngraph:\n  "
        "y: matmul(x, w)\noutputs: [y]\n"
    )
    for arch, needs in (("sm_90a", []), ("sm_90a+cublaslt", ["cublasLt"])):
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
        told = json.loads((folder / "manifest.json").read_text())
        assert told["needs"] == needs
        assert told["memory"]["arena"] == (32 << 20 if needs else 0)


def test_no_gpu_is_asked_for_where_calls_are_compiled() -> None:
    with pytest.raises(UnsupportedError, match="XL5203"):
        architectures.target(Request())
