"""What decides how kernels are made names no backend: an instruction is its meaning, its spelling
is the backend's.
"""

import re
from pathlib import Path

import pytest

from xlac_sdk.host.registry import installed

TOOLCHAIN = Path(__file__).parents[2] / "toolchain" / "xlac"
ROOMS = ("ir", "ops", "passes", "fusion", "codegen", "memory")


@pytest.mark.parametrize("room", ROOMS)
def test_no_string_begins_with_the_name_of_a_backend(room: str) -> None:
    quoted = tuple(f"{quote}{name}." for name in installed() for quote in "\"'")
    said = [
        f"{file.relative_to(TOOLCHAIN)}:{number}: {line.strip()}"
        for file in sorted((TOOLCHAIN / room).rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if any(name in line for name in quoted)
    ]
    assert not said, said


def test_code_names_no_backend_but_the_default_and_the_interpreted_one() -> None:
    """What a backend can, and what its diagnostics mean, it says itself."""
    words = re.compile(r"\b(cuda|opencl)\b", re.IGNORECASE)
    said = [
        f"{file.relative_to(TOOLCHAIN)}:{number}: {line.strip()}"
        for file in sorted([*TOOLCHAIN.rglob("*.py"), *TOOLCHAIN.rglob("*.txt")])
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if words.search(line)
    ]
    assert not said, said
