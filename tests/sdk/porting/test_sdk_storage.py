"""Where the memory of programs lies: kernels assume no more than a target's facts say of it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import slate_port
from slate_port import SlateBackend, SlateDevice

from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac_sdk.conformance import cases, check
from xlac_sdk.device import CopyEnd, MemoryPlace
from xlac_sdk.dtypes import Array
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Request, Target

COUNT = 1 << 18  # f32 of an array so large that it need not be copied
SPEC = f"""
xlac: 1
model: sums
inputs: {{x: "f32[{COUNT}]", few: "f32[3]"}}
outputs: {{y: x + 1, z: few * 2}}
"""
TARGET = Target("any", vector_bytes=32)


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    (tmp_path / "sums.yaml").write_text(SPEC)
    return tmp_path / "sums.yaml"


def alignments(program: Program) -> set[int]:
    """What kernels assume of their buffers."""
    return {b.align for kernel in program.kernels for b in kernel.parameters}


def test_kernels_assume_what_allocations_keep(sums: Path) -> None:
    program = lower(load(sums), TARGET).program
    for storage, assumed in ((8, 8), (16, 16), (64, 64), (256, 64)):
        target = replace(TARGET, storage_alignment=storage)
        assert alignments(grids(program, target)) == {assumed}


def test_kernels_assume_what_every_launch_keeps() -> None:
    (case,) = (c for c in cases(TARGET) if c.name == "vectors of rows of any length")
    assert alignments(case.program) == {64}
    assert alignments(grids(case.program, TARGET)) == {4}


@pytest.mark.parametrize("storage", [0, 4, 24])
def test_what_is_no_alignment_is_refused(storage: int) -> None:
    with pytest.raises(ValueError, match="storage_alignment is a power of two of at least 8"):
        Target("odd", storage_alignment=storage)


def starting(array: Array, offset: int) -> Array:
    """A copy that starts so many bytes after a multiple of 64."""
    room = np.empty(array.size + 32, array.dtype)
    start = (offset - room.ctypes.data) % 64 // array.itemsize
    made: Array = room[start : start + array.size]
    made[:] = array
    return made


class Sharing(SlateDevice):
    """A slate that could use the host's memory, and whose slots may begin anywhere."""

    alignment = 4

    def __init__(self, library: Path) -> None:
        super().__init__(library)
        self.offered: list[int] = []
        self.offsets: list[int] = []

    def adopt(self, memory: memoryview, written: bool) -> Any:
        self.offered.append(np.frombuffer(memory, np.uint8).ctypes.data % 64)

    def launch(
        self, kernel: Kernel, places: tuple[MemoryPlace, ...], sizes: tuple[int, ...]
    ) -> None:
        self.offsets += [place.offset for place in places]
        super().launch(kernel, places, sizes)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
def test_a_device_is_offered_memory_that_is_aligned(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[Sharing] = []

    def device(library: Path) -> Sharing:
        devices.append(Sharing(library))
        return devices[-1]

    monkeypatch.setattr(slate_port, "SlateDevice", device)
    backend = SlateBackend()
    target = replace(backend.target(Request()), storage_alignment=16)
    run = executable(lower(load(sums), target), backend).run
    x, few = np.arange(COUNT, dtype=np.float32), np.float32([1, 2, 3])
    for offset in (0, 4, 16, 24, 48):
        y, z = starting(np.zeros_like(x), offset), np.zeros_like(few)
        run({"x": starting(x, offset), "few": few}, {"y": y, "z": z})
        np.testing.assert_array_equal(y, x + 1)
        np.testing.assert_array_equal(z, few * 2)
    (used,) = devices
    assert used.offered == [0, 0, 16, 16, 48, 48]
    assert used.offsets and not any(offset % 64 for offset in used.offsets)


class SeenSlate(SlateDevice):
    """A slate that the host sees: what `copy` is given is on the device."""

    def view(self, place: MemoryPlace, nbytes: int) -> memoryview | None:
        return self._bytes(place)[:nbytes]

    def copy(self, target: CopyEnd, source: CopyEnd, nbytes: int) -> None:
        assert isinstance(target, MemoryPlace) and isinstance(source, MemoryPlace)
        super().copy(target, source, nbytes)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
@pytest.mark.parametrize("group", ["steps", "statements"])
def test_the_host_copies_where_it_sees_the_memory(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs, outputs, constants, state, and numbers that decide loops and branches."""
    monkeypatch.setattr(slate_port, "SlateDevice", SeenSlate)
    backend, target = SlateBackend(), SlateBackend().target(Request())
    for case in [case for case in cases(target) if case.group == group][:12]:
        wrong = [o.detail for o in check(case, backend, target) if o.status != "passed"]
        assert not wrong, "\n".join(wrong)


def odd(end: MemoryPlace | memoryview, nbytes: int) -> bool:
    return isinstance(end, MemoryPlace) and bool((end.offset | nbytes) % 16)


class WideSlate(SlateDevice):
    """A slate that copies 16 bytes at a time on the device."""

    copied = 0

    def copy(self, target: CopyEnd, source: CopyEnd, nbytes: int) -> None:
        if isinstance(target, MemoryPlace) and isinstance(source, MemoryPlace):
            assert not odd(target, nbytes) and not odd(source, nbytes)
            type(self).copied += 1
        super().copy(target, source, nbytes)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
def test_copies_that_a_device_cannot_make_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every element type, at any place, of known and open sizes, in loops."""
    monkeypatch.setattr(slate_port, "SlateDevice", WideSlate)
    backend = SlateBackend()
    target = replace(backend.target(Request()), copy_alignment=16)
    for case in [case for case in cases(target) if case.group == "steps"]:
        wrong = [o.detail for o in check(case, backend, target) if o.status != "passed"]
        assert not wrong, "\n".join(wrong)
    assert WideSlate.copied  # those that it can make are its own


def test_a_device_that_copies_bytes_copies() -> None:
    (case,) = (c for c in cases(TARGET) if c.name == "arguments that move with a loop")
    names = [k.name for k in grids(case.program, TARGET).kernels]
    wide = [k.name for k in grids(case.program, replace(TARGET, copy_alignment=4)).kernels]
    wider = [k.name for k in grids(case.program, replace(TARGET, copy_alignment=8)).kernels]
    assert names == wide and wider == [*names, "copy_f32"]
