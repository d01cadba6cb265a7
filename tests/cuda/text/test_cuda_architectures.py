"""What text is written and compiled for: architectures and their facts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from xlac_cuda import BACKEND
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request


@pytest.mark.parametrize(
    "arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"]
)
def test_architectures_have_facts(arch: str) -> None:
    target = BACKEND.target(Request(arch=arch))
    assert (target.warp, target.block_threads, target.access_bytes, target.vector_bytes) == (
        32,
        1024,
        16,
        0,
    )
    assert (
        target.shared_bytes in (101376, 166912, 232448)
        and target.processors > 0
        and target.machine == {"arch": arch}
    )


@pytest.mark.parametrize("arch", ["sm_90b", "sm_70", "h100", "sm_90a; rm", "sm_89a"])
def test_an_architecture_that_is_none_is_refused(arch: str) -> None:
    with pytest.raises(SourceError) as error:
        BACKEND.target(Request(arch=arch))
    assert error.value.diagnostics[0].code == "XL5202" and error.value.diagnostics[0].hint


def test_what_is_not_for_gpus_is_refused() -> None:
    for request in (Request(cpu="znver5"), Request(triple="x86_64-unknown-linux-gnu")):
        with pytest.raises(SourceError, match="--arch"):
            BACKEND.target(request)


def test_without_a_gpu_the_architecture_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlac_cuda.device.devices.architecture", lambda *which: None)
    with pytest.raises(UnsupportedError, match="--arch names none") as error:
        BACKEND.target(Request())
    assert error.value.diagnostics[0].code == "XL5203"


def test_writing_text_imports_neither_pycuda_nor_a_driver() -> None:
    code = (
        "import sys, xlac_cuda; from xlac_sdk.target import Request; from "
        "xlac_sdk.conformance.steps import chain\n"
        "xlac_cuda.BACKEND.emit(chain().program, xlac_cuda.BACKEND.target(Request(arch='sm_80')))\n"
        "assert not {'pycuda', 'xlac_cuda.device.driver', 'xlac_cuda.build.nvrtc', "
        "'xlac_cuda.run.executable'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
