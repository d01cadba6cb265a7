"""The GPUs of this machine, as reported by the driver, without creating a context."""

from __future__ import annotations

from xlac_cuda.device.driver import MAJOR, MINOR, driver
from xlac_sdk.source import Diagnostic, UnsupportedError, XlacError


def of_rank(local: int) -> int:
    """The number of the GPU of a rank, by the rank's own on this machine. Raises UnsupportedError
    where there are fewer GPUs.
    """
    count = driver().number("cuDeviceGetCount")
    if count > 1 and local >= count:
        problem = f"rank number {local} of this machine has no GPU: there are {count}"
        hint = "start as many ranks on a machine as it has GPUs: mpirun --map-by ppr:N:node"
        raise UnsupportedError(Diagnostic("XL5211", problem, hint=hint))
    return 0 if count == 1 else local


def architecture(index: int = 0) -> str | None:
    """The architecture of a GPU, by compilers' names; None without a driver or a GPU."""
    try:
        known = driver()
        device = known.number("cuDeviceGet", index)
        major, minor = (
            known.number("cuDeviceGetAttribute", which, device) for which in (MAJOR, MINOR)
        )
    except XlacError:
        return None
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
