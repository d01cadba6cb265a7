"""Artefacts of checked programs: a status, and what says what failed; from C, from Python, on every
target that can be loaded.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import root
from xlac_sdk.source import SourceError

ROWS = """
xlac: 1
model: rows
weights: {init: {seed: 0}}
dims: {n: {min: 1, max: 8, opt: 3}}
inputs: {ids: "i32[n]", x: "f32[n]"}
state: {calls: {type: "i32[]", next: calls + 1}}
graph: {e: {op: embedding, in: ids, count: 10, dim: 4}}
outputs: {y: e, r: sqrt(x), calls: calls + 1}
"""
MAIN = r"""
#include "rows.h"
#include <stdio.h>
static union { unsigned char bytes[ROWS_MEMORY_BYTES + ROWS_ALIGN]; int64_t aligned; } memory;
int main(void)
{
    rows_context context;
    rows_sizes sizes = {3};
    int32_t ids[3] = {1, 2, 3}, calls;
    float x[3] = {1, 4, 9}, y[12], r[3];
    int64_t position = -7, value = -7;
    unsigned char *start = memory.bytes +
        (ROWS_ALIGN - (uintptr_t)memory.bytes % ROWS_ALIGN) % ROWS_ALIGN;
    const char *text;
    if (rows_init(&context, start, ROWS_MEMORY_BYTES) != ROWS_OK) return 1;
    printf("%d", rows_failure(&context, NULL, NULL) == NULL);
    for (int i = 0; i < 4; ++i) {
        rows_status status;
        ids[2] = i == 1 ? 12 : 3;
        x[1] = i == 2 ? -4.0f : 4.0f;
        status = rows_run(&context, &sizes, ids, x, y, r, &calls);
        text = rows_failure(&context, &position, &value);
        printf("\n%d %d %s %d %d %s", status, calls, text == NULL ? "-" : text,
               (int)position, (int)value, rows_status_text(status));
    }
    printf("\n%d", rows_failure(NULL, NULL, NULL) == NULL);
    return 0;
}
"""
BOUNDS = "rows.yaml:8:9: e: index is outside 0 to 9 [XL6020]"
ROOT = "rows.yaml:9:20: r: NaN appears in the result of sqrt, and no operand holds any [XL6022]"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.yaml"
    file.write_text(ROWS)
    return file


def build(rows: Path, target: str, *options: str) -> Path:
    folder = rows.parent / f"out-{target}"
    root.main(
        [
            "build",
            str(rows),
            "--dim",
            "n",
            "-o",
            str(folder),
            "--target",
            target,
            "--checked",
            *options,
        ],
        standalone_mode=False,
    )
    return folder


def told(folder: Path, *files: str) -> list[str]:
    (folder / "main.c").write_text(MAIN)
    command = [
        "cc",
        "-std=c99",
        "-pedantic",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "main.c",
        *files,
        "-lm",
        "-o",
        "main",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(
        [str(folder / "main")], capture_output=True, text=True, check=True
    ).stdout.splitlines()


CHECKED = [
    "1",
    "0 1 - -7 -7 done",
    f"9 2 {BOUNDS} 2 12 a check failed",
    f"9 3 {ROOT} 1 0 a check failed",
    "0 4 - 1 0 done",
    "1",
]
UNCHECKED = ["1", *(f"0 {n} - -7 -7 done" for n in (1, 2, 3, 4)), "1"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_whoever_compiles_the_c_file_chooses(rows: Path) -> None:
    folder = build(rows, "c")
    assert told(folder, "rows.c", "-DROWS_CHECKED") == CHECKED
    assert told(folder, "rows.c") == UNCHECKED
    text = (folder / "rows.c").read_text()
    assert text.count("[40] = {") == 1  # the table is there once


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_native_code_has_the_same_functions(rows: Path) -> None:
    assert told(build(rows, "cpu", "--emit", "o,h"), "rows.o") == CHECKED


@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
def test_loaded_artefacts(target: str, rows: Path) -> None:
    if target == "c" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    model: Any = xlac.load(build(rows, target))
    ids, x = np.asarray([1, 2, 3], np.int32), np.asarray([1, 4, 9], np.float32)
    assert model.outputs == ("y", "r", "calls")
    assert (model(ids, x)["r"] == [1, 2, 3]).all()
    with pytest.raises(SourceError, match=r"XL6020") as failed:
        model(ids * 4, x)
    assert (
        "e" in str(failed.value)
        and "rows.yaml:8:9" in str(failed.value)
        and "12" in str(failed.value)
    )
    with pytest.raises(SourceError, match=r"XL6022"):
        model(ids, -x)
    assert model(ids, x)["calls"] == 4


def test_what_is_not_checked_has_nothing_of_it(rows: Path) -> None:
    folder = rows.parent / "plain"
    root.main(
        ["build", str(rows), "--dim", "n", "-o", str(folder), "--target", "c"],
        standalone_mode=False,
    )
    assert "failure" not in (folder / "rows.c").read_text() + (
        folder / "rows.h"
    ).read_text().replace("CHECK_FAILED", "")
