"""Generates the list of operations in docs/STABLEHLO.md from the table: `python -m
xlac.frontends.stablehlo.coverage FILE`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import xlac.frontends.stablehlo.ops  # noqa: F401  # fills the table
from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.table import REFUSED, SPECIFICATION, TABLE

BEGIN, END = "<!-- operations: generated -->", "<!-- end of operations -->"


def markdown() -> str:
    """Every operation with the file that builds it and its section of the specification, and the
    operations that are refused.
    """
    lines = ["| operation | built in | specified by |", "|---|---|---|"]
    for name in sorted(TABLE):
        entry = TABLE[name]
        file = entry.build.__module__.partition(".ops.")[2].replace(".", "/")
        section = (
            f"[{entry.section}]({SPECIFICATION}{entry.section})"
            if not entry.section[:1].isupper()
            else entry.section
        )
        lines.append(f"| `{name}` | `ops/{file}.py` | {section} |")
    lines += ["", "Refused, with the reason that the error gives:", ""]
    reasons: dict[str, list[str]] = {}
    for name, reason in sorted(REFUSED.items()):
        reasons.setdefault(reason, []).append(f"`{name}`")
    lines += [f"- {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    lines += [
        "",
        (
            "Targets of `custom_call` with a meaning: "
            f"{', '.join(f'`{name}`' for name in sorted(CUSTOM_CALLS))}."
        ),
    ]
    return "\n".join(lines)


def renewed(text: str) -> str:
    """A document with the list between its markers replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{markdown()}\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")
