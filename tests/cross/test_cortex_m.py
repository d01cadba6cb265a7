"""The C file on a microcontroller: digits on a Cortex-M4 with 64 KB of memory, without a heap,
under qemu.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli import status

HERE = Path(__file__).parent
DIGITS = HERE.parents[1] / "specs" / "digits.yaml"
RAM = 64 << 10
CPU = ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-mthumb")
HEAP = {
    "malloc",
    "_malloc_r",
    "calloc",
    "_calloc_r",
    "realloc",
    "_realloc_r",
    "free",
    "_free_r",
    "sbrk",
    "_sbrk",
    "_sbrk_r",
}
QEMU = ("qemu-system-arm", "-M", "mps2-an386", "-display", "none", "-semihosting", "-kernel")
IMAGES = 5

# `bare.c` hands over a block: images, then room for the results and for what was used of the stack.
RUNNER = """
#include "digits.h"
#include <string.h>

extern unsigned char stack_top[], stack_end[];
int batch(unsigned char *block);

static union { unsigned char bytes[DIGITS_MEMORY_BYTES]; int64_t aligned; } memory;
enum { IMAGES = %d, PAINT = 0xa5 };

int batch(unsigned char *block)
{
    unsigned char *const here = (unsigned char *)__builtin_frame_address(0) - 64;
    unsigned char *used = stack_end;
    digits_context context;
    int status = digits_init(&context, memory.bytes, sizeof memory.bytes);
    memset(memory.bytes, PAINT, sizeof memory.bytes);
    for (volatile unsigned char *p = stack_end; p < here; ++p) *p = PAINT;
    for (int i = 0; i < IMAGES && status == DIGITS_OK; ++i) {
        const float *const image = (const float *)block + i * DIGITS_IMAGE_COUNT;
        status = digits_run(&context, image,
            (float *)block + IMAGES * DIGITS_IMAGE_COUNT + i * DIGITS_PROBS_COUNT);
    }
    while (used < here && *used == PAINT) ++used;
    const uint32_t depth = (uint32_t)(stack_top - used);
    memcpy(block + sizeof(float) * IMAGES * (DIGITS_IMAGE_COUNT + DIGITS_PROBS_COUNT),
    &depth, sizeof depth);
    return status;
}
"""


@pytest.mark.parametrize(
    "options", [(), ("--size",), ("--no-libm",), ("--size", "--quantize", "int8")], ids=" ".join
)
def test_digits_in_64_kilobytes(options: tuple[str, ...], tmp_path: Path) -> None:
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        assert shutil.which(tool), f"{tool} is not installed: see make test-cross"
    given = [
        "build",
        str(DIGITS),
        "--dim",
        "batch=1",
        "--target",
        "c",
        "--max-memory",
        "64K",
        "-o",
        str(tmp_path / "digits"),
    ]
    assert status([*given, *options]) == 0
    program = linked(tmp_path, libm="--no-libm" not in options)

    undefined_or_defined = {
        line.split()[-1] for line in told("arm-none-eabi-nm", program).splitlines()
    }
    assert not HEAP & undefined_or_defined and "digits_run" in undefined_or_defined

    images = np.load(DIGITS.parent / "data" / "digits_images.npy")[:IMAGES].astype(np.float32)
    (tmp_path / "given").write_bytes(images.tobytes().ljust(block_bytes(), b"\0"))
    subprocess.run(
        [*QEMU, str(program)], cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=1800, check=True
    )
    made = (tmp_path / "made").read_bytes()
    found = np.frombuffer(made, np.float32, IMAGES * 10, images.nbytes).reshape(IMAGES, 10)
    expected = xlac.compile(DIGITS, target="reference", dims={"batch": IMAGES})(image=images)
    loose = "int8" in options
    np.testing.assert_allclose(
        found, expected, rtol=0 if loose else 2e-5, atol=0.05 if loose else 1e-6
    )
    assert (found.argmax(1) == np.asarray(expected).argmax(1)).all()

    (stack,) = struct.unpack_from("<I", made, images.nbytes + found.nbytes)
    static = sum(
        int(line.split()[1])
        for line in told("arm-none-eabi-size", "-A", program).splitlines()
        if line.startswith((".data ", ".bss "))
    )
    assert 0 < stack < 4096 and static + stack <= RAM


def block_bytes() -> int:
    return IMAGES * (64 + 10) * 4 + 4


def linked(folder: Path, libm: bool) -> Path:
    """The model, its runner and the start file, in memory of 64 KB; a section that does not fit
    fails to link.
    """
    script = (
        (HERE / "mps2.ld")
        .read_text()
        .replace(
            "data : ORIGIN = 0x20000000, LENGTH = 4M", f"data : ORIGIN = 0x20000000, LENGTH = {RAM}"
        )
    )
    assert str(RAM) in script
    script = script.replace(
        "stack_top =", "stack_end = ADDR(.bss) + SIZEOF(.bss);\n    stack_top ="
    )
    (folder / "board.ld").write_text(script)
    (folder / "runner.c").write_text(RUNNER % IMAGES)
    warned = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-ffunction-sections")
    objects = []
    for file, flags in (
        (folder / "digits" / "digits.c", ("-pedantic", "-Os")),
        (folder / "runner.c", ()),
        (
            HERE / "bare.c",
            ("-std=gnu99", f"-DBYTES={block_bytes()}", "-fno-tree-loop-distribute-patterns"),
        ),
    ):
        objects.append(folder / f"{file.stem}.o")
        told(
            "arm-none-eabi-gcc",
            *CPU,
            *warned,
            *flags,
            f"-I{folder / 'digits'}",
            "-c",
            file,
            "-o",
            objects[-1],
        )
    made = folder / "digits.elf"
    libraries = ("-lm",) if libm else ()
    told(
        "arm-none-eabi-gcc",
        *CPU,
        "-nostartfiles",
        "-specs=nano.specs",
        "-Wl,--gc-sections",
        "-T",
        folder / "board.ld",
        *objects,
        *libraries,
        "-o",
        made,
    )
    return made


def told(*command: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
