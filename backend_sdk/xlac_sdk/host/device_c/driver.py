"""What a port gives for the host's side of its programs as C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlac_sdk.emit.cdialect import Dialect

ENTRY_FORMS = ("c", "h", "hpp", "rs", "cmake", "so")
"""The forms of a package with steps that train (`Backend.entry_forms`)."""
FORMS = (*ENTRY_FORMS, "main", "exe")
"""The forms of a package that a backend with a `HostDriver` has, besides the device's text."""


@dataclass(frozen=True, slots=True)
class HostDriver:
    """A driver's calls in C, through which the host's side of a program uses a device.

    `text` defines `struct device` and the functions that docs/PORTING.md lists; it may use the
    macros in `defines`, which come first of all. `dialect` is the language of the kernels,
    `device` names the device in comments, such as `an OpenCL device`, `link` is what the file is
    linked with, and `alignment` that of the port's `Device`.
    """

    dialect: Dialect
    device: str
    text: str
    link: str
    defines: Mapping[str, str] = field(default_factory=dict)
    alignment: int = 256
