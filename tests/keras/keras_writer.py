"""Writes .keras files from the parts that expected.npz has recorded."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np


class Recorded:
    """The recorded models: their configuration, weights, inputs and results."""

    @cached_property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """All arrays by name."""
        with np.load(Path(__file__).parent / "expected.npz") as held:
            return {name: held[name] for name in held.files}

    @cached_property
    def by_case(self) -> dict[str, dict[str, np.ndarray]]:
        """The arrays of each case."""
        found: dict[str, dict[str, np.ndarray]] = {}
        for name, array in self.arrays.items():
            case, _, rest = name.partition("/")
            found.setdefault(case, {})[rest] = array
        return found

    def part(self, case: str, side: str) -> list[np.ndarray]:
        """The inputs (`in`) or the results (`out`, of a second call `again`) of a case."""
        held = self.by_case[case]
        return [held[f"{side}/{n}"] for n in range(sum(k.startswith(f"{side}/") for k in held))]

    def text(self, case: str) -> str:
        """The configuration of a case."""
        return bytes(self.by_case[case]["config"]).decode()


EXPECTED = Recorded()


def names() -> list[str]:
    """The cases."""
    return sorted(name for name in EXPECTED.by_case if name != "whole")


def archived(case: str, file: Path, text: str | None = None) -> None:
    """Writes the .keras file of a case, with another configuration if one is given."""
    import h5py

    held = io.BytesIO()
    with h5py.File(held, "w") as weights:
        for name, array in EXPECTED.by_case[case].items():
            if name.startswith("h5/"):
                weights[name[3:]] = array
    parts = EXPECTED.by_case[case].items()
    assets = {name: bytes(array) for name, array in parts if name.startswith("assets/")}
    write(file, EXPECTED.text(case) if text is None else text, held.getvalue(), assets)


def write(file: Path, text: str, weights: bytes, assets: Mapping[str, bytes] = {}) -> None:
    """Writes a .keras file of a configuration, an HDF5 file and other members."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("metadata.json", "{}")
        archive.writestr("config.json", text)
        archive.writestr("model.weights.h5", weights)
        for name, data in assets.items():
            archive.writestr(name, data)
