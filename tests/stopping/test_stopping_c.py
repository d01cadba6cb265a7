"""A C program ends a run of its own: from a signal handler, and from another thread."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from endless import SPECS

from xlac.cli import status

MAIN = """
#include "endless.h"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Alignas(ENDLESS_ALIGN) unsigned char memory[ENDLESS_MEMORY_BYTES];
static endless_context context;

static void pressed(int number) { (void)number; endless_stop(&context); }

int main(void)
{
    int32_t n = 0, k = 7;
    if (endless_run(&context, &n, &k) != ENDLESS_NOT_READY) return 1;
    if (endless_init(&context, memory, sizeof memory) != ENDLESS_OK) return 2;
    signal(SIGALRM, pressed);
    for (int round = 0; round < 3; ++round) { /* the signal comes while it runs */
        ualarm(20000, 0);
        if (endless_run(&context, &n, &k) != ENDLESS_STOPPED) return 3;
    }
    endless_stop(&context); /* nothing runs: it is the next run that is stopped, once */
    n = -1;
    if (endless_run(&context, &n, &k) != ENDLESS_STOPPED) return 4;
    if (endless_run(&context, &n, &k) != ENDLESS_OK || k != -1) return 5;
    endless_stop(&context);
    if (endless_reset(&context) != ENDLESS_OK ||
        endless_run(&context, &n, &k) != ENDLESS_OK) return 6;
    endless_stop(NULL);
    if (strcmp(endless_status_text(ENDLESS_STOPPED), "the run was stopped") != 0) return 7;
    return 0;
}
"""


@pytest.mark.parametrize(
    "target,forms,linked", [("c", "c,h", "endless.c"), ("cpu", "o,h", "endless.o")]
)
def test_a_signal_handler_stops_a_run(target: str, forms: str, linked: str, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    spec = tmp_path / "endless.yaml"
    spec.write_text(SPECS["while"])
    folder = tmp_path / "out"
    assert status(["build", str(spec), "--target", target, "--emit", forms, "-o", str(folder)]) == 0
    (folder / "main.c").write_text(MAIN)
    subprocess.run(
        [
            "gcc",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "main.c",
            linked,
            "-lm",
            "-o",
            "main",
        ],
        cwd=folder,
        check=True,
    )
    assert subprocess.run([folder / "main"], timeout=1800, check=False).returncode == 0
