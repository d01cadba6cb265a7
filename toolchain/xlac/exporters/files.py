"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A file beside `file` that takes its place when the block succeeds, and goes when it does not."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    os.close(handle)
    made = Path(name)
    try:
        yield made
        made.chmod(0o644)
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)
