"""The GPUs of this machine, as the driver tells of them; nothing is started on them."""

from __future__ import annotations

from xlac_cuda.device.driver import MAJOR, MINOR, driver
from xlac_sdk.source import XlacError


def architecture(index: int = 0) -> str | None:
    """The architecture of a GPU, as compilers name it; None without a driver or a GPU."""
    try:
        known = driver()
        device = known.number("cuDeviceGet", index)
        major, minor = (
            known.number("cuDeviceGetAttribute", which, device) for which in (MAJOR, MINOR)
        )
    except XlacError:
        return None
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
