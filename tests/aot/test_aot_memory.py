"""Memory: what a call touches is what the manifest says, by valgrind too, and in threads."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from packages import SPECS, build, by_name, inputs_of

import xlac
from xlac_sdk.host import manifest
from xlac_sdk.host.capi import identifier
from xlac_sdk.host.capi.library import ContextStruct, aligned

DIGITS = str(SPECS / "digits.yaml")
GUARD = 4096
MODELS = [
    "digits",
    "lstm_3x60",
    "softmax",
    "mlp_small",
    "layernorm_gelu",
    "loop_scan",
    "branch_cond",
    "tagger",
]


def watched(folder: Path, name: str, poison: int) -> np.ndarray:
    """Which bytes of the caller's memory a call wrote: those that two poisons of it show."""
    model = xlac.load(folder)
    need = model.manifest.memory
    library = ctypes.CDLL(str(folder / model.manifest.library))
    prefix = identifier(name)
    getattr(library, f"{prefix}_size").restype = ctypes.c_size_t
    nbytes = getattr(library, f"{prefix}_size")()
    block = aligned(nbytes + 2 * GUARD)
    block[:] = poison
    context = ContextStruct()
    memory = ctypes.c_void_p(block.ctypes.data + GUARD)
    assert (
        getattr(library, f"{prefix}_init")(ctypes.byref(context), memory, ctypes.c_size_t(nbytes))
        == 0
    )
    inputs = inputs_of(model)
    outputs = {s.name: np.zeros(s.shape, s.dtype.numpy) for s in model.program.outputs}
    arrays = [*(inputs[s.name] for s in model.program.inputs), *outputs.values()]
    given = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    assert getattr(library, f"{prefix}_run")(ctypes.byref(context), *given) == 0
    changed = block != poison
    assert not changed[:GUARD].any() and not changed[GUARD + nbytes :].any(), (
        "memory of others was written"
    )
    assert nbytes == -(-need.state // 64) * 64 + need.arena
    return changed[GUARD : GUARD + nbytes]


@pytest.mark.parametrize("spec", MODELS)
@pytest.mark.sampled(2)
def test_the_peak_is_what_a_call_touches(spec: str, tmp_path: Path) -> None:
    """The arena is poisoned twice, with different bytes, so that a byte that is written is seen at
    least once.
    """
    folder = build(spec, tmp_path / "out")
    name = xlac.load(folder).manifest.name
    written = watched(folder, name, 0xA5) | watched(folder, name, 0x5A)
    high = int(np.flatnonzero(written).max(initial=-1)) + 1
    assert len(written) - 63 <= high <= len(written)


VALGRIND = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include "@name.h"
extern const size_t bytes[];
static void *call(void *unused) {
    void *memory = aligned_alloc(@upper_ALIGN,
        (@upper_MEMORY_BYTES + @upper_ALIGN - 1) / @upper_ALIGN * @upper_ALIGN), *a[@count];
    @name_context *context = malloc(sizeof *context);
    (void)unused;
    for (int i = 0; i < @count; ++i) {
        a[i] = malloc(bytes[i]);
        if (i < @inputs) memset(a[i], i + 1, bytes[i]);
    }
    if (@name_init(context, memory, @upper_MEMORY_BYTES)) exit(1);
    for (int k = 0; k < 2; ++k)
        if (@name_run(context, @arguments)) exit(2);
    int odd = 0;
    for (int i = @inputs; i < @count; ++i)
        for (size_t k = 0; k < bytes[i]; ++k) odd ^= ((unsigned char *)a[i])[k];
    if (odd == 1000) puts("it depends on every byte of the outputs");
    for (int i = 0; i < @count; ++i) free(a[i]);
    free(memory);
    free(context);
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, call, NULL);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    return 0;
}
const size_t bytes[] = {@bytes};
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="make test-cross installs valgrind")
@pytest.mark.parametrize("tool", ["memcheck", "helgrind"])
@pytest.mark.parametrize("spec", ["digits", "lstm_3x60", "loop_scan", "branch_cond"])
@pytest.mark.sampled(16)
def test_valgrind_finds_nothing(spec: str, tool: str, tmp_path: Path) -> None:
    """Two threads at once, every array in a block of its own: no byte outside of them, none
    undefined, no race.
    """
    folder = build(
        spec,
        tmp_path / "out",
        "--emit",
        "o,h",
        "--cpu",
        "x86-64-v3",
        "--triple",
        "x86_64-unknown-linux-gnu",
    )
    facts = manifest.read(folder)
    arrays = [*facts.inputs, *facts.outputs]
    words = {
        "name": facts.name,
        "upper": facts.name.upper(),
        "count": str(len(arrays)),
        "inputs": str(len(facts.inputs)),
        "arguments": ", ".join(f"a[{i}]" for i in range(len(arrays))),
        "bytes": ", ".join(str(a.bytes) for a in arrays),
    }
    text = VALGRIND
    for word, value in words.items():
        text = text.replace(f"@{word}", value)
    (tmp_path / "main.c").write_text(text)
    compiler = ["cc", *"-std=c11 -g -pthread main.c -o main -I".split(), str(folder)]
    subprocess.run([*compiler, str(folder / f"{facts.name}.o")], cwd=tmp_path, check=True)
    command = ["valgrind", f"--tool={tool}", "-q", "--error-exitcode=9", "./main"]
    if tool == "memcheck":
        command[3:3] = ["--leak-check=full"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def test_threads_of_python_share_a_model(tmp_path: Path) -> None:
    model = xlac.load(build("digits", tmp_path / "out"))
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((32, 64)).astype(np.float32) for _ in range(8)]
    right = [model(x) for x in given]
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(50):
            if not np.array_equal(model(given[number]), right[number]):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_models_with_state_keep_it_apart(tmp_path: Path) -> None:
    spec = tmp_path / "counter.yaml"
    spec.write_text(COUNTER)
    folder = build(spec, tmp_path / "out")
    first, second = xlac.load(folder), xlac.load(folder)
    x = np.ones(3, np.float32)
    got = [
        float(np.asarray(by_name(m(x), m.outputs)["total"])[0])
        for m in (first, first, second, first)
    ]
    assert got == [1, 2, 1, 3]
    first.reset()
    got = [float(np.asarray(by_name(m(x), m.outputs)["total"])[0]) for m in (first, second)]
    assert got == [1, 2]


COUNTER = """\
xlac: 1
model: counter
inputs: {x: "f32[3]"}
state: {sum: {type: "f32[3]", next: total}}
graph: {total: x + sum}
outputs: {total: total}
"""
