"""The table from operations to builders, filled by the files of `ops`; an entry names the section
that specifies the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlac.frontends.stablehlo.site import Builder, Built, OperationSite

SPECIFICATION = "https://openxla.org/stablehlo/spec#"


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """An operation's builder, and its section of the StableHLO specification (1.11).

    Operations of CHLO have a section of CHLO's reference.
    """

    build: Builder
    section: str

    def __call__(self, site: OperationSite) -> Built:
        return self.build(site)


TABLE: dict[str, OperationEntry] = {}


def operation(*names: str, section: str = "") -> Callable[[Builder], Builder]:
    """Registers a builder for operations; the section defaults to the operation's name."""

    def enter(builder: Builder) -> Builder:
        for name in names:
            assert name not in TABLE, f"two builders for {name}"
            TABLE[name] = OperationEntry(builder, section or name)
        return builder

    return enter


REFUSED: dict[str, str] = {}
"""Known operations that cannot run on one device, and the reason."""
