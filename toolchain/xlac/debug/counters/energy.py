"""Energy that the processor's packages take, by the counters of RAPL that Linux shows as files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path("/sys/class/powercap")


@dataclass
class EnergyCounters:
    """The packages' counters in microjoules; `missing` says why there are none."""

    folder: Path = FOLDER
    missing: str = ""
    begun: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            # intel-rapl:0 is a package; intel-rapl:0:1 is a part of it
            for zone in sorted(self.folder.glob("intel-rapl:[0-9]*")):
                if zone.name.count(":") == 1:
                    self.begun[zone] = _number(zone / "energy_uj")
            if not self.begun:
                self.missing = "the system shows no counters of energy"
        except (OSError, ValueError) as error:
            self.begun, self.missing = {}, f"counters of energy cannot be read: {error}"

    def joules(self) -> float | None:
        """Joules of all packages since this was made, those of other programs too; None where there
        are no counters. A counter that began again at zero is counted on.
        """
        if not self.begun:
            return None
        spent = 0
        for zone, before in self.begun.items():
            now = _number(zone / "energy_uj")
            if now < before:
                now += _number(zone / "max_energy_range_uj")
            spent += now - before
        return spent / 1e6


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
