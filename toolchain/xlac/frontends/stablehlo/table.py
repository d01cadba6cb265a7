"""The table from operations to builders. Each file of `ops` fills its part; an entry says where the
operation is specified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlac.frontends.stablehlo.site import Builder, Built, OperationSite

SPECIFICATION = "https://openxla.org/stablehlo/spec#"


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """How an operation is built, and the section of the StableHLO specification (1.11) that says
    what it means.

    Operations of CHLO have a section of CHLO's own reference.
    """

    build: Builder
    section: str

    def __call__(self, site: OperationSite) -> Built:
        return self.build(site)


TABLE: dict[str, OperationEntry] = {}


def operation(*names: str, section: str = "") -> Callable[[Builder], Builder]:
    """Enters a builder for operations; the section is the operation's name unless said."""

    def enter(builder: Builder) -> Builder:
        for name in names:
            assert name not in TABLE, f"two builders for {name}"
            TABLE[name] = OperationEntry(builder, section or name)
        return builder

    return enter


REFUSED: dict[str, str] = {}
"""Operations that are known and cannot be run on one device, and why."""
