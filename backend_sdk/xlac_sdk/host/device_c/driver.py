"""What a port gives for the host's side of its programs as C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlac_sdk.emit.cdialect import Dialect


@dataclass(frozen=True, slots=True)
class HostDriver:
    """A driver's calls in C, through which the host's side of a program uses a device.

    `text` defines `struct device` and the functions that docs/PORTING.md lists; it may use the
    macros in `defines`. `dialect` is the language of the kernels. For the header's comment:
    `device`, such as `an OpenCL device`, and `link`, what the file is linked with. `alignment` is
    that of the port's `Device`.
    """

    dialect: Dialect
    device: str
    text: str
    link: str
    defines: Mapping[str, str] = field(default_factory=dict)
    alignment: int = 256
