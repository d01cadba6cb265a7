"""`python -m xlac_sdk.conformance NAME [--arch KIND] [--html FILE] [--only GROUP]`: tests a backend
without the toolchain.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xlac_sdk.conformance import run
from xlac_sdk.host.registry import find
from xlac_sdk.source import XlacError
from xlac_sdk.target import Request


def main() -> int:
    """Tests an installed backend by its name, and reports how many cases passed."""
    parser = argparse.ArgumentParser(
        prog="python -m xlac_sdk.conformance", description="Test a backend."
    )
    parser.add_argument("name")
    parser.add_argument("--html", type=Path, help="also write the report as a page")
    parser.add_argument("--only", default="", help="groups whose name contains this")
    parser.add_argument("--arch", default="", help="a kind of machine that the backend knows")
    given = parser.parse_args()
    try:
        report = run(find(given.name), only=given.only, request=Request(arch=given.arch))
    except XlacError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(report.text())
    if given.html:
        given.html.write_text(report.html(), encoding="utf-8")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
