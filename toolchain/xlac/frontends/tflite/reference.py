"""Generates the lists of operators in docs/TFLITE.md: `python -m xlac.frontends.tflite.reference
docs/TFLITE.md`.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import xlac.frontends.tflite.ops  # noqa: F401 - registers the operators
from xlac.frontends.tflite.file.schema import schema
from xlac.frontends.tflite.refused import REFUSED
from xlac.frontends.tflite.registry import OPERATORS

BEGIN, END = "<!-- operators -->", "<!-- end of operators -->"


def table() -> str:
    """Lists the imported operators, and the refused ones with the reason."""
    names = sorted(OPERATORS)
    lines = [*textwrap.wrap(f"**Imported** ({len(names)}): {', '.join(names)}", 120), ""]
    for reason, refused in REFUSED.items():
        lines += [
            *textwrap.wrap(f"**Refused** ({len(refused)}), {reason}: {', '.join(refused)}", 120),
            "",
        ]
    return "\n".join(lines)


def unnamed() -> set[str]:
    """Operators of the schema that are neither imported nor refused with a reason."""
    known = set(OPERATORS).union(*REFUSED.values())
    return set(schema().enums["BuiltinOperator"].values()) - known


def written(text: str) -> str:
    """The document with its lists regenerated."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table()}{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
