"""Errors that come from a backend of somebody else: they are told apart from those of xlac."""

from __future__ import annotations

from pathlib import Path
from traceback import walk_tb

from xlac_sdk.host.registry import GROUP

OWN = frozenset(
    {"xlac", "xlac_sdk", "xlac_c", "xlac_cpu", "xlac_cuda", "xlac_opencl", "xlac_reference"}
)
"""Packages of this repository."""


def told(error: BaseException) -> str | None:
    """What to say of an error that was raised in the code of a backend that is not ours, or of what
    that called: the backend, its module, function and line. None for other errors.
    """
    from importlib.metadata import entry_points

    names = {
        package: point.name
        for point in entry_points(group=GROUP)
        if (package := point.value.partition(":")[0].partition(".")[0]) not in OWN
    }
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in names:
            file = Path(frame.f_code.co_filename).name
            place = f"{package}/{file}:{line}, in {frame.f_code.co_name}"
            problem = f"{type(error).__name__}: {error}".strip().removesuffix(":")
            return f"the backend '{names[package]}' failed ({place}): {problem}"
    return None
