"""The digits head learns from scratch on a Cortex-M4 with 128 KB of memory, without a heap, under
qemu; to the bits that the host's C comes to.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_cortex_m import CPU, HEAP, HERE, QEMU, told

from xlac.cli import status

SPECS = HERE.parents[1] / "specs"
RAM, BATCH, EPOCHS, TRAIN, TEST = 128 << 10, 8, 3, 1432, 360
SPEC = """
xlac: 1
model: digits_sgd
include: [digits.yaml]
inputs: {label: "i32[batch]"}
train:
  batch: batch
  init: {seed: 0}
  loss: mean(cross_entropy(logits, label))
  metrics: {accuracy: "mean(f32(argmax(logits, axis=-1) == label))"}
  optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
"""
FLAGS = "-std=c99 -Wall -Wextra -Werror -O2 -ffp-contract=off"
WHOLE = (*FLAGS.split(), f"-DEPOCHS={EPOCHS}", f"-DTEST={TEST}")
# `bare.c` hands over a block and takes it back: what was learned, and what was used of the stack
ON_THE_BOARD = """
#include <stdint.h>
#include <string.h>
extern unsigned char stack_top[], stack_end[];
int learn(uint64_t told[4]);
int batch(unsigned char *block);
int batch(unsigned char *block)
{
    unsigned char *const here = (unsigned char *)__builtin_frame_address(0) - 128;
    unsigned char *used = stack_end;
    uint64_t told[4];
    for (volatile unsigned char *p = stack_end; p < here; ++p) *p = 0xa5;
    const int status = learn(told);
    while (used < here && *used == 0xa5) ++used;
    memcpy(block, told, sizeof told);
    const uint64_t depth = (uint64_t)(stack_top - used);
    memcpy(block + sizeof told, &depth, sizeof depth);
    return status;
}
"""
ON_THE_HOST = """
#include <stdint.h>
#include <stdio.h>
int learn(uint64_t told[4]);
int main(void)
{
    uint64_t told[4];
    const int status = learn(told);
    fwrite(told, sizeof told, 1, stdout);
    return status;
}
"""


@pytest.mark.parametrize("options", [("--no-libm",), ("--no-libm", "--size")], ids=" ".join)
def test_digits_are_learned_in_128_kilobytes(options: tuple[str, ...], tmp_path: Path) -> None:
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm", "cc"):
        assert shutil.which(tool), f"{tool} is not installed: see make test-cross"
    built(tmp_path, options)
    host = tmp_path / "host"
    sources = (tmp_path / "out" / "digits_sgd.c", HERE / "learner.c", tmp_path / "host.c")
    told("cc", *WHOLE, *includes(tmp_path), *sources, "-o", host)
    expected = subprocess.run([str(host)], capture_output=True, check=True).stdout

    program = on_the_board(tmp_path)
    names = {line.split()[-1] for line in told("arm-none-eabi-nm", program).splitlines()}
    assert not HEAP & names and {"digits_sgd_step", "digits_sgd_evaluate"} <= names
    (tmp_path / "given").write_bytes(bytes(40))
    subprocess.run(
        [*QEMU, str(program)], cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=1800, check=True
    )
    made = (tmp_path / "made").read_bytes()

    assert made[:32] == expected
    before, after = struct.unpack("<2f", made[24:32])
    assert before < 0.2 and after > 0.92
    (stack,) = struct.unpack("<Q", made[32:])
    static = sum(
        int(line.split()[1])
        for line in told("arm-none-eabi-size", "-A", program).splitlines()
        if line.startswith((".data ", ".bss "))
    )
    assert 0 < stack < 8192 and static + stack <= RAM


def built(folder: Path, options: tuple[str, ...]) -> None:
    """The C file of the spec, and the digits as C."""
    (folder / "digits_sgd.yaml").write_text(SPEC)
    shutil.copy(SPECS / "digits.yaml", folder)
    given = ["build", str(folder / "digits_sgd.yaml"), "--target", "c", "--dim", f"batch={BATCH}"]
    assert status([*given, "--max-memory", "128K", "-o", str(folder / "out"), *options]) == 0
    parts = [
        (data["image"][:most], data["label"][:most])
        for data, most in (
            (np.load(SPECS / "data" / f"digits_{kind}.npz"), most)
            for kind, most in (("train", TRAIN), ("test", TEST))
        )
    ]
    images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    pixels = np.rint(images * 16).astype(np.uint8)
    assert (pixels / np.float32(16) == images).all()
    (folder / "pixels.inc").write_text(
        "".join(f"{{{','.join(map(str, row))}}},\n" for row in pixels.tolist())
    )
    (folder / "labels.inc").write_text(",\n".join(map(str, labels.tolist())) + "\n")
    (folder / "host.c").write_text(ON_THE_HOST)
    (folder / "board.c").write_text(ON_THE_BOARD)


def includes(folder: Path) -> tuple[str, ...]:
    return f"-I{folder / 'out'}", f"-I{folder}"


def on_the_board(folder: Path) -> Path:
    """The program in memory of 128 KB; a section that does not fit fails to link."""
    script = (HERE / "mps2.ld").read_text()
    data = "data : ORIGIN = 0x20000000, LENGTH = "
    assert f"{data}4M" in script
    script = script.replace(f"{data}4M", f"{data}{RAM}")
    script = script.replace(
        "stack_top =", "stack_end = ADDR(.bss) + SIZEOF(.bss);\n    stack_top ="
    )
    (folder / "board.ld").write_text(script)
    start = ("-std=gnu99", "-DBYTES=40", "-fno-tree-loop-distribute-patterns")
    sources = {
        folder / "out" / "digits_sgd.c": (),
        HERE / "learner.c": (),
        folder / "board.c": (),
        HERE / "bare.c": start,
    }
    objects = []
    for file, flags in sources.items():
        objects.append(folder / f"{file.stem}.o")
        told(
            "arm-none-eabi-gcc",
            *CPU,
            *WHOLE,
            "-ffunction-sections",
            *flags,
            *includes(folder),
            "-c",
            file,
            "-o",
            objects[-1],
        )
    made = folder / "digits.elf"
    told(
        "arm-none-eabi-gcc",
        *CPU,
        "-nostartfiles",
        "-specs=nano.specs",
        "-Wl,--gc-sections",
        "-T",
        folder / "board.ld",
        *objects,
        "-o",
        made,
    )
    return made
