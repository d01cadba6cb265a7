"""The GPUs of this machine, as reported by the driver, without creating a context."""

from __future__ import annotations

from xlac_cuda.device.driver import MAJOR, MINOR, driver
from xlac_sdk.source import XlacError


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
