"""Writes the table of operators in docs/ONNX.md: `python -m xlac.frontends.onnx.reference
docs/ONNX.md`.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import xlac.frontends.onnx.ops  # noqa: F401 - registers the operators
from xlac.frontends.onnx.ops.refused import REFUSED
from xlac.frontends.onnx.registry import MICROSOFT, ML, OPERATORS

BEGIN, END = "<!-- operators -->", "<!-- end of operators -->"
DOMAINS = {"": "ai.onnx", ML: ML, MICROSOFT: MICROSOFT}


def table() -> str:
    """Every operator with its own builder, by domain, with the operator sets at which its
    definition changed.
    """
    lines = []
    for domain in sorted(
        {d for d, _ in OPERATORS}, key=lambda d: (list(DOMAINS).index(d) if d in DOMAINS else 9, d)
    ):
        names = sorted(name for d, name in OPERATORS if d == domain and (d, name) not in REFUSED)
        listed = ", ".join(f"{name} {_since(domain, name)}" for name in names)
        lines += [
            *textwrap.wrap(f"**{DOMAINS.get(domain, domain)}** ({len(names)}): {listed}", 120),
            "",
        ]
    return "\n".join(lines)


def _since(domain: str, name: str) -> str:
    return "/".join(str(version.since) for version in reversed(OPERATORS[domain, name]))


def written(text: str) -> str:
    """The document with its table regenerated."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table()}{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
