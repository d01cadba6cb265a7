"""Files have at most 300 lines and functions at most 60, in folders that are done."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DONE = (
    "backend_sdk/xlac_sdk",
    "backends/c/xlac_c",
    "backends/cpu/xlac_cpu",
    "backends/cuda/xlac_cuda",
    "backends/reference/xlac_reference",
    "runtime/xlac_runtime",
    "toolchain/xlac/codegen/core",
    "toolchain/xlac/codegen/gpu",
    "toolchain/xlac/codegen/library",
    "toolchain/xlac/fusion",
    "toolchain/xlac/memory",
)
FILE, FUNCTION = 300, 60


@pytest.mark.parametrize("folder", DONE)
def test_files_and_functions_are_short(folder: str) -> None:
    long = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        text = file.read_text()
        name = file.relative_to(ROOT)
        if text.count("\n") > FILE:
            long.append(f"{name}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= FUNCTION:
                long.append(f"{name}:{node.lineno}: {node.name}")
    assert not long, "\n".join(long)
