"""Memory: what a call touches is what the manifest says; valgrind, threads, and folders that cannot
be written.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packages import SPECS, agree, build, by_name, inputs_of

import xlac
from xlac.cli import status
from xlac_sdk.host import manifest, tool
from xlac_sdk.host.capi import identifier
from xlac_sdk.host.capi.library import ContextStruct, aligned
from xlac_sdk.source import SourceError

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
    void *memory = aligned_alloc(@upper_ALIGN, (@upper_MEMORY_BYTES + @upper_ALIGN - 1) / @upper_ALIGN * @upper_ALIGN), *a[@count];
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
@pytest.mark.sampled(6)
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
        "name": facts.name, "upper": facts.name.upper(), "count": str(len(arrays)), "inputs": str(len(facts.inputs)),
        "arguments": ", ".join(f"a[{i}]" for i in range(len(arrays))), "bytes": ", ".join(str(a.bytes) for a in arrays),
    }  # fmt: skip
    text = VALGRIND
    for word, value in words.items():
        text = text.replace(f"@{word}", value)
    (tmp_path / "main.c").write_text(text)
    subprocess.run(["cc", "-std=c11", "-g", "-pthread", "-I", str(folder), "main.c", str(folder / f"{facts.name}.o"), "-o", "main"],
                   cwd=tmp_path, check=True)  # fmt: skip
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


# ---- folders that cannot be written --------------------------------------------------------------


def test_a_folder_of_somebody_elses_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("a file")
    for name in ("mine", "file"):
        assert status(["build", DIGITS, "-o", str(tmp_path / name)]) == 2
        assert "XL3010" in capsys.readouterr().err
    assert status(["build", DIGITS, "-o", str(tmp_path / "file" / "out")]) == 2
    assert "XL30" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "mine", "thesis.txt"]


def test_an_empty_folder_is_built_into(tmp_path: Path) -> None:
    assert status(["build", DIGITS, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "manifest.json").exists()


def test_a_folder_that_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: Any, **named: Any) -> str:
        raise PermissionError(13, os.strerror(13), str(tmp_path))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    assert status(["build", DIGITS, "-o", str(tmp_path / "out")]) == 2
    assert "Permission denied" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "form", "spec", "room"),
    [("cpu", "o", "digits", 4), ("cpu", "h", "digits", 4), ("cpu", "so", "digits", 4), ("cpu", "exe", "digits", 4),
     ("c", "c", "digits", 4), ("c", "so", "mul_add_reduce", 16), ("c", "exe", "mul_add_reduce", 40)],
)  # fmt: skip
def test_a_disk_that_is_full(
    target: str, form: str, spec: str, room: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real one, of a few KB, where this process may mount it; what was there before stays."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={room}k", "none", str(disk)],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("this process may not mount a small disk")
    try:
        given = [
            "build",
            str(SPECS / f"{spec}.yaml"),
            "--target",
            target,
            "--emit",
            form,
            "--static",
            "-o",
            str(disk / "out"),
        ]
        assert status(given) == 4
        said = capsys.readouterr().err
        assert os.strerror(errno.ENOSPC) in said and "XL4002" in said and "linked" not in said
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_tool_that_finds_the_disk_full() -> None:
    """Wherever it writes: that is no fault of what it was given."""
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as error:
        tool.run(
            ["sh", "-c", f"echo 'ld: final link failed: {os.strerror(errno.ENOSPC)}' >&2; exit 1"]
        )
    assert error.value.errno == errno.ENOSPC
    assert (
        tool.run(["sh", "-c", "echo no >&2; exit 1"]) == "no"
        and tool.run(["false"]) == "it ended with 1"
    )
    assert tool.run(["sh", "-c", "echo a warning >&2"]) == ""


def test_an_artefact_is_replaced_whole(tmp_path: Path) -> None:
    """One that was loaded goes on as it was."""
    folder = build("digits", tmp_path / "out", "--dim", "batch=2")
    before = xlac.load(folder)
    build("lstm_3x60", folder)
    assert before(np.zeros((2, 64), np.float32)).shape == (2, 10)
    agree("lstm_3x60", xlac.load(folder))
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("damage", [False, True])
def test_files_of_others_in_an_artefact_stay(damage: bool, tmp_path: Path) -> None:
    folder = build("digits", tmp_path / "out", "--dim", "batch=2", "--emit", "h,so,o")
    (folder / "main.c").write_text("mine")
    (folder / "inner").mkdir()
    (folder / "inner" / "notes.txt").write_text("mine too")
    if damage:
        (folder / "manifest.json").write_text('{"files": 3')
        with pytest.raises(SourceError, match="XL3010"):  # all of it may be anybody's
            build("digits", folder, "--dim", "batch=3", "--emit", "h,so")
    else:
        build("digits", folder, "--dim", "batch=3", "--emit", "h,so")
        assert xlac.load(folder)(np.zeros((3, 64), np.float32)).shape == (3, 10)
    assert (folder / "main.c").read_text() == "mine"
    assert (folder / "inner" / "notes.txt").read_text() == "mine too"
    assert (folder / "digits.o").exists() == damage
