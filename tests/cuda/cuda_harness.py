"""The cuda backend on the stand-in driver: programs are compiled by g++ and run on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from standin_build import SOURCES, Standin

from xlac_cuda.backend import CudaBackend
from xlac_cuda.device import driver
from xlac_cuda.device import open as devices
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.run import conditions, faults
from xlac_sdk.target import Request, Target

ARCH = "sm_90a"
STANDIN = Standin()
KINDS = ("allocations", "pinned", "streams", "events", "modules", "graphs", "pushed")


class OnStandin(CudaBackend):
    """The backend itself, but for the compiler: g++ instead of NVRTC."""

    def __init__(self, watched: bool = False, device: int = 0) -> None:
        super().__init__(device)
        self.watched = watched

    def target(self, request: Request) -> Target:
        return super().target(Request(arch=request.arch or ARCH, threads=request.threads))

    def on(self, number: int) -> OnStandin:
        return OnStandin(self.watched, number)

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        (text,) = sources.values()
        return STANDIN.library(text, watched=self.watched)


class Counts:
    """What the stand-in has at the moment, and what it was asked for."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(STANDIN.driver))
        self._library.standin_count.restype = ctypes.c_longlong
        self._library.standin_fault.restype = ctypes.c_char_p
        self._library.standin_trace.restype = ctypes.c_char_p

    def __call__(self, kind: str) -> int:
        found = int(self._library.standin_count(kind.encode()))
        assert found >= 0, f"the stand-in does not count {kind}"
        return found

    def calls(self, name: str) -> int:
        return self(f"calls:{name}")

    def held(self) -> dict[str, int]:
        """All that somebody has to give back."""
        return {kind: self(kind) for kind in KINDS}

    @property
    def fault(self) -> str:
        """What the last kernel that failed did."""
        return bytes(self._library.standin_fault()).decode()

    @property
    def trace(self) -> list[str]:
        """The copies begun and done, and the kernels, since counts began anew, in order; with
        STANDIN_TRACE=1.
        """
        return bytes(self._library.standin_trace()).decode().splitlines()

    def reset(self) -> None:
        """Counts begin anew."""
        self._library.standin_reset()

    def revive(self) -> None:
        """A lost context works again: a test goes on where a process would end."""
        self._library.standin_revive()


def condition_kernels() -> bytes:
    """What decides loops and branches, for the stand-in."""
    return STANDIN.library((SOURCES / "conditions.cu").read_text(encoding="utf-8")).read_bytes()


@contextmanager
def standin(patch: pytest.MonkeyPatch) -> Iterator[Counts]:
    """The stand-in as this process's driver, reached by ctypes."""
    patch.setenv("XLAC_CACHE", "off")  # code for the stand-in is not for others
    patch.setattr(driver, "LIBRARY", str(STANDIN.driver))
    patch.setattr(conditions, "image", condition_kernels)
    patch.setattr(faults, "MODULE", (str(Path(__file__).with_name("locate_standin.py")),))
    patch.setattr(devices, "_opened", Gpu)
    patch.setattr(devices, "_gpus", {})
    driver.driver.cache_clear()
    counts = Counts()
    counts.reset()
    yield counts
    for device in devices._gpus.values():
        device.driver.raw["cuDevicePrimaryCtxRelease_v2"](device.device)
    driver.driver.cache_clear()
