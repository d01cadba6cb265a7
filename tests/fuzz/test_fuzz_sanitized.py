"""Random graphs, also of open sizes, as C under AddressSanitizer and UBSan: nothing is read or
written outside of the value that it belongs to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sanitized.py")
BATCH = 25  # graphs of one process in `--all`, half a minute
COUNT = {"fixed": int(os.environ.get("XLAC_FUZZ_GRAPHS", "300")), "open": 100}


def sanitized(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs `sanitized.py`; skips where gcc or its libasan is not installed."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    told = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, check=True)
    library = Path(told.stdout.decode().strip())
    if not library.is_absolute():
        pytest.skip("gcc has no libasan")
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)],
        env={
            **os.environ,
            "LD_PRELOAD": str(library.resolve()),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
            "XLAC_CACHE": "off",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("kind", "first"), [(k, n) for k, count in COUNT.items() for n in range(0, count, BATCH)]
)
@pytest.mark.sampled(200)
@pytest.mark.long
def test_nothing_is_touched_outside_of_its_value(
    kind: str, first: int, request: pytest.FixtureRequest
) -> None:
    last = first + (BATCH if request.config.getoption("--all") else 3)
    done = sanitized(kind, first, last)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-4000:]


@pytest.mark.long
def test_the_gap_behind_a_value_is_watched() -> None:
    done = sanitized("fixed", 5, 6, "planted")
    assert done.returncode != 0 and "use-after-poison" in done.stderr
