"""Runs inputs of a target again: `python -m harness.again TARGET FILE…`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from harness.attempt import attempt
from harness.target import target


def main() -> int:
    one, wrong = target(sys.argv[1]), 0
    for file in map(Path, sys.argv[2:]):
        start = time.process_time()
        found = attempt(one, file.read_bytes())
        wrong += found is not None
        print(f"{file}: {found.text if found else 'fine'} ({time.process_time() - start:.2f} s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
