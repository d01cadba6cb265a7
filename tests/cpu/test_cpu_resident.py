"""LLVM's pages are given back to the system, and it works as before."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cpu_programs import kernel_of

from xlac_cpu import BACKEND, backend
from xlac_cpu.llvm import generator, objects, resident
from xlac_cpu.llvm.host import host
from xlac_cpu.run import fastcall
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir.build import Builder, apply, load, ramp
from xlac_sdk.kernel_ir.kernel import Buffer
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Request

TEXT = "define i32 @two() {\n  ret i32 2\n}\n"


def mapped() -> int:
    """Bytes of LLVM's library that this process has in memory as the file has them."""
    total, own = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            own = "libllvmlite" in line
        elif own and (found := re.match(r"(Rss|Private_Dirty): +(\d+) kB", line)):
            total += (1 if found[1] == "Rss" else -1) * 1024 * int(found[2])
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are not asked")
def test_pages_of_llvm_are_given_back_and_come_again() -> None:
    code = objects.compile_here(TEXT, host())
    before = mapped()
    assert before > 10 << 20
    resident.give_back()
    assert mapped() < before / 4
    assert objects.compile_here(TEXT, host()) == code
    assert mapped() > 1 << 20


@pytest.mark.parametrize(
    ("length", "given"),
    [(objects.LONG, ["optimise", "give_back"]), (objects.LONG - 1, ["optimise"])],
)
def test_pages_of_optimising_a_long_text_are_given_back_before_code_is_generated(
    length: int, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator.code_generator(host())  # gives back when it is made
    said: list[str] = []
    for module, name in ((objects, "optimise"), (resident, "give_back")):
        monkeypatch.setattr(module, name, told(getattr(module, name), name, said))
    assert b"two" in objects.compile_here(TEXT.ljust(length), host())
    assert said == given


def test_where_nothing_is_known_of_the_library_nothing_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "another")
    resident._unwritten.cache_clear()
    try:
        assert resident._unwritten() == ()
        resident.give_back()
    finally:
        resident._unwritten.cache_clear()


class Watched(dict[str, Array]):
    """Constants that say when they are asked for."""

    def __init__(self, arrays: dict[str, Array], said: list[str]) -> None:
        super().__init__(arrays)
        self.said = said

    def __getitem__(self, symbol: str) -> Array:
        self.said.append(symbol)
        return super().__getitem__(symbol)


def test_large_constants_are_made_when_llvm_has_given_its_memory_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def body(b: Builder, buffers: dict[str, Buffer]) -> None:
        at = ramp(0, 1, 16)
        b.store(
            buffers["y"], at, apply(Primitive.ADD, load(buffers["x"], at), load(buffers["c"], at))
        )

    kernel = kernel_of(body, {"x": (DType.F32, 16), "c": (DType.F32, 16)}, {"y": (DType.F32, 16)})
    x, y, c = (
        Slot(n, n, DType.F32, (16,), r)
        for n, r in (("x", Role.INPUT), ("y", Role.OUTPUT), ("c", Role.CONSTANT))
    )
    fastcall.code()  # gives back too when it is made
    said: list[str] = []
    constants = Watched({"c": np.arange(16, dtype=np.float32)}, said)
    program = Program(
        "sum",
        (x,),
        (y,),
        (x, y, c),
        (Launch(kernel, (Argument(x), Argument(c), Argument(y))),),
        constants,
    )
    target = BACKEND.target(Request())
    made = BACKEND.build(BACKEND.emit(program, target), tmp_path)
    for module, name in ((resident, "give_back"), (fastcall, "code")):
        monkeypatch.setattr(module, name, told(getattr(module, name), name, said))
    monkeypatch.setattr(backend, "LARGE", 64)
    run = BACKEND.load(made, program, target)
    assert said == ["give_back", "give_back", "code", "give_back", "c"]
    found = np.zeros(16, np.float32)
    run.run({"x": np.ones(16, np.float32)}, {"y": found})
    np.testing.assert_array_equal(found, np.arange(16) + 1)


def told(function: Callable[..., object], name: str, said: list[str]) -> Callable[..., object]:
    """The function, which says first that it is called."""

    def call(*given: object) -> object:
        said.append(name)
        return function(*given)

    return call
