"""Runs ONNX's own backend tests without pytest and says what failed: `python
tests/onnx/onnx_suite.py [PATTERN] [-v]`.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

# where onnx keeps the outputs of its light models
if "ONNX_HOME" not in os.environ:
    os.environ["ONNX_HOME"] = tempfile.mkdtemp(prefix="xlac-onnx-")
    atexit.register(shutil.rmtree, os.environ["ONNX_HOME"], ignore_errors=True)


@cache
def suite() -> dict[str, Callable[[], Any]]:
    """Every test that runs on CPU, by name. Making the cases takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test import BackendTest

    import xlac.frontends.onnx.ops  # noqa: F401 - a mistake in a family is to end here, not in every test
    from xlac.integrations.onnx_backend import XlacBackend

    items = BackendTest(XlacBackend, __name__)._test_items
    return {
        name: (lambda run=item.func: run(None))
        for tests in items.values()
        for name, item in tests.items()
        if name.endswith("_cpu")
    }


def failures(names: Iterator[str] | list[str]) -> dict[str, str]:
    """The tests that fail, with the kind of error and its first line."""
    found: dict[str, str] = {}
    for name in names:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                suite()[name]()
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            found[name] = f"{type(error).__name__}: {lines[0] if lines else ''}"
    return found


def main() -> None:
    pattern = next((a for a in sys.argv[1:] if not a.startswith("-")), "")
    names = [name for name in sorted(suite()) if re.search(pattern, name)]
    start = time.process_time()
    failed = failures(names)
    for name, why in failed.items():
        print(f"{name}: {why[: 2000 if '-v' in sys.argv else 200]}")
    print(
        f"{len(names) - len(failed)} of {len(names)} pass in {time.process_time() - start:.1f} s "
        "of CPU time"
    )


if __name__ == "__main__":
    main()
