"""Writes the lists of layers in docs/KERAS.md: `python -m xlac.frontends.keras.reference
docs/KERAS.md`.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import xlac.frontends.keras.keras2
import xlac.frontends.keras.layers  # noqa: F401 - registers the layers
from xlac.frontends.keras.refused import REFUSED
from xlac.frontends.keras.registry import ACTIVATIONS, LAMBDAS, LAYERS, OPERATIONS

BEGIN, END = "<!-- layers -->", "<!-- end of layers -->"


def table() -> str:
    """The layers that are imported, those that are refused with the reason, activations and
    functions.
    """
    listing = [(f"**Imported** ({len(LAYERS)})", sorted(LAYERS))]
    listing += [(f"**Refused** ({len(kinds)}), {why}", [*kinds]) for why, kinds in REFUSED.items()]
    listing += [
        (f"**Activations** ({len(ACTIVATIONS)})", sorted(ACTIVATIONS)),
        (f"**Functions of keras.ops** ({len(OPERATIONS)})", sorted(OPERATIONS)),
        (f"**Functions of TensorFlow**, in files of Keras 2 ({len(LAMBDAS)})", sorted(LAMBDAS)),
    ]
    lines: list[str] = []
    for title, names in listing:
        lines += [*textwrap.wrap(f"{title}: {', '.join(names)}", 120), ""]
    return "\n".join(lines)


def written(text: str) -> str:
    """The document with its lists regenerated."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table()}{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
