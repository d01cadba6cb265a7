"""A class name means one thing: no two classes of the distributions have the same, and no two files
of tests, which pytest imports by their names.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("toolchain/xlac", "backend_sdk/xlac_sdk", "backends", "runtime/xlac_runtime")
CLASS = re.compile(r"^ *class (\w+)[(:]", re.MULTILINE)

# an operation has the name of its mnemonic, a step or a part of a kernel that of program files
OPERATIONS = {"Attention", "Barrier", "Call", "Const", "Linear", "Repeat", "Var", "While"}
PUBLISHED = {"Branch"}  # a schema's title in docs/xlac-spec-1.schema.json, a step in program files
DOORS = {"Model"}  # xlac.Model is what is compiled, xlac_runtime.Model what was


@cache
def homes() -> dict[str, set[str]]:
    """The files that define a class, by its name."""
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for name in CLASS.findall(file.read_text("utf-8")):
                found.setdefault(name, set()).add(file.relative_to(ROOT).as_posix())
    return found


def test_a_class_name_means_one_thing() -> None:
    twice = {name: files for name, files in homes().items() if len(files) > 1}
    assert set(twice) == OPERATIONS | PUBLISHED | DOORS, twice


def test_operations_and_steps_are_what_share_a_name() -> None:
    """One of the two is an operation; the other belongs to programs, kernels or derivatives."""
    for name in OPERATIONS:
        first, second = sorted(homes()[name])
        assert any("/ops/" in file for file in (first, second)), name
        assert any("xlac_sdk" in f or "/autodiff/" in f for f in (first, second)), name


def test_files_of_tests_have_names_of_their_own() -> None:
    """pytest stops at the second of two with one name in folders without `__init__.py`."""
    counted = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in counted.items() if count > 1] == []
