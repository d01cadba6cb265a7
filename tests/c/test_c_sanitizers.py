"""The C target under sanitizers and valgrind, and how much memory a run touches."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from c_harness import build, needs, run

from xlac_sdk.host.capi.library import ContextStruct, aligned

MODELS: dict[str, tuple[str, ...]] = {  # as small as they may be
    "digits": ("--dim", "batch=2"),
    "lstm_3x60": ("--dim", "T=3", "--set", "width=12"),
    "loop_while": (),
    "branch_cond": (),
}

# Runs a model twice in two threads, on memory that is exactly as long as it says, and prints a line
# of what it computed.
DRIVER = """
#include "{name}.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void *work(void *seed)
{{
    {name}_context context;
    void *const memory = calloc(1, {upper}_MEMORY_BYTES);
{arrays}
    int status = {name}_init(&context, memory, {upper}_MEMORY_BYTES);
    for (int i = 0; i < 2 && status == 0; ++i) status = {name}_run(&context{given});
    if (status == 0) status = {name}_reset(&context);
    if (status != 0) failed = status;
{frees}
    free(memory);
    (void)seed;
    return NULL;
}}

int main(void)
{{
    pthread_t one, two;
    if (pthread_create(&one, NULL, work, NULL) != 0 ||
        pthread_create(&two, NULL, work, NULL) != 0) return 9;
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    puts({name}_status_text(failed));
    return failed;
}}
"""


def driver(spec: str, folder: Path) -> Path:
    """A program that calls a model; its arrays are exactly as long as the header says, and aligned
    to their elements.
    """
    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = [*manifest["inputs"], *manifest["outputs"]]
    text = DRIVER.format(
        name=spec,
        upper=spec.upper(),
        arrays="\n".join(
            f"    void *const a{i} = calloc(1, {max(1, a['bytes'])});" for i, a in enumerate(arrays)
        ),
        given="".join(f", a{i}" for i in range(len(arrays))),
        frees="\n".join(f"    free(a{i});" for i in range(len(arrays))),
    )
    (folder / "driver.c").write_text(text)
    return folder / "driver.c"


@pytest.mark.parametrize(
    ("compiler", "sanitizer"),
    [("gcc", "address,undefined"), ("gcc", "thread"), ("clang", "undefined")],
)
@pytest.mark.parametrize(
    "options", [(), ("--size", "--no-libm", "--quantize", "int8")], ids=["fast", "small"]
)
@pytest.mark.parametrize("spec", MODELS)
@pytest.mark.sampled(10)
def test_sanitizers_are_silent(
    spec: str, options: tuple[str, ...], compiler: str, sanitizer: str, tmp_path: Path
) -> None:
    needs(compiler)
    folder = build(spec, tmp_path / spec, *MODELS[spec], *options)
    # its libraries may not be installed
    alone = ("-fsanitize-undefined-trap-on-error",) if compiler == "clang" else ()
    flags = (
        f"-fsanitize={sanitizer}",
        "-fno-sanitize-recover=all",
        *alone,
        "-g",
        "-O1",
        f"-D{spec.upper()}_DEBUG",
    )
    run(
        compiler,
        *flags,
        driver(spec, folder),
        folder / f"{spec}.c",
        "-lm",
        "-lpthread",
        "-o",
        tmp_path / "driver",
    )
    assert run(tmp_path / "driver") == "done\n"


@pytest.mark.parametrize("spec", MODELS)
@pytest.mark.sampled(8)
def test_valgrind_is_silent(spec: str, tmp_path: Path) -> None:
    needs("valgrind", "gcc")
    folder = build(spec, tmp_path / spec, *MODELS[spec])
    run(
        "gcc",
        "-g",
        "-O1",
        driver(spec, folder),
        folder / f"{spec}.c",
        "-lm",
        "-lpthread",
        "-o",
        tmp_path / "driver",
    )
    run("valgrind", "-q", "--error-exitcode=5", "--leak-check=full", tmp_path / "driver")


@pytest.mark.parametrize("spec", MODELS)
@pytest.mark.sampled(2)
def test_what_is_printed_is_what_a_run_touches(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The memory is poisoned twice, with different bytes, around two runs: the last byte that a run
    wrote is found.
    """
    needs("cc")
    folder = build(spec, tmp_path / spec, *MODELS[spec], "--emit", "c,h,so")
    said = capsys.readouterr().out
    manifest = json.loads((folder / "manifest.json").read_text())
    arena = manifest["memory"]["arena"]
    assert f"{arena:,} arena" in said
    library = ctypes.CDLL(str(folder / f"{spec}.so"))
    size, init, call = (getattr(library, f"{spec}_{f}") for f in ("size", "init", "run"))
    size.restype = ctypes.c_size_t
    beyond = 4096
    nbytes, state = int(size()), manifest["memory"]["state"]
    assert nbytes - arena == -(-state // 64) * 64 or nbytes == max(1, arena + state)
    memory, context = aligned(nbytes + beyond), ContextStruct()
    arrays = [
        np.zeros(max(1, a["bytes"]), np.uint8) for a in [*manifest["inputs"], *manifest["outputs"]]
    ]
    touched = np.zeros(len(memory), bool)
    for poison in (0xA5, 0x5A):
        memory[:] = poison
        assert (
            init(
                ctypes.byref(context), ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(nbytes)
            )
            == 0
        )
        assert call(ctypes.byref(context), *(ctypes.c_void_p(a.ctypes.data) for a in arrays)) == 0
        touched |= memory != poison
    high = int(np.flatnonzero(touched).max()) + 1 if touched.any() else 0
    assert high <= nbytes and not touched[nbytes:].any()
    assert nbytes - high < 64 or not arena  # the last buffer is filled up to whole cache lines


UNDEFINED = """
import os, sys
from xlac_c import BACKEND
from xlac_sdk.host.capi import c_compiler
from xlac_sdk.conformance import cases, check
from xlac_sdk.target import Request
c_compiler.FLAGS = (*c_compiler.FLAGS, "-O0", "-fsanitize=address,undefined",
                 "-fno-sanitize-recover=all", "-g")
target = BACKEND.target(Request())
for number, case in enumerate(cases(target)):
    if number % int(sys.argv[1]) == 0:
        print(case.name, flush=True)
        failed = [o for o in check(case, BACKEND, target)
          if o.status not in ("passed", "unsupported")]
        assert not failed, failed
"""


def test_conformance_programs_under_sanitizers(request: pytest.FixtureRequest) -> None:
    """Some cases of the kit, their memory exactly as long as they say, checked by ASan and
    UBSan.
    """
    needs("gcc")
    library = run("gcc", "-print-file-name=libasan.so").strip()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(Path(library).resolve()),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    done = subprocess.run(
        [sys.executable, "-c", UNDEFINED, "5" if request.config.getoption("--all") else "25"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
