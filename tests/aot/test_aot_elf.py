"""Our own linker: what it makes runs, with nothing on the machine but Python, and what it does not
do it says.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from packages import agree, build

import xlac
from xlac_cpu.ahead.elf import linking
from xlac_cpu.ahead.elf.objects import LinkError
from xlac_cpu.llvm.host import host

HERE = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is run here")


def compiled(text: str, triple: str = "x86_64-unknown-linux-gnu") -> bytes:
    """The object of a module of LLVM text."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic", codemodel="small")
    return bytes(machine.emit_object(llvm.parse_assembly(f'target triple = "{triple}"\n{text}')))


# Every way in which code and data refer to each other: a call, a constant, a table of addresses in
# writable data, zeros that are written, a symbol looked up in the offset table, and functions and
# data of the process.
FIRST = """
@table = global [2 x ptr] [ptr @one, ptr @two]
@calls = internal global i32 0
@shared = external global i32
declare i32 @abs(i32)
declare i32 @other(i32)
define i32 @one(i32 %x) { %y = call i32 @other(i32 %x)  ret i32 %y }
define internal i32 @two(i32 %x) { %y = call i32 @abs(i32 %x)  ret i32 %y }
define i32 @run(i32 %which, i32 %x) {
  %at = getelementptr [2 x ptr], ptr @table, i32 0, i32 %which
  %f = load ptr, ptr %at
  %y = call i32 %f(i32 %x)
  %n = load i32, ptr @calls
  %m = add i32 %n, 1
  store i32 %m, ptr @calls
  %s = load i32, ptr @shared
  %a = add i32 %y, %s
  ret i32 %a
}
define i32 @count() { %n = load i32, ptr @calls  ret i32 %n }
define double @half(double %x) { %y = fmul double %x, 5.125000e-01  ret double %y }
"""
SECOND = """
@shared = global i32 1000
define i32 @other(i32 %x) { %y = mul i32 %x, 3  ret i32 %y }
"""


@HERE
def test_code_and_data_of_two_objects_find_each_other(tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    file.write_bytes(
        b"".join(linking.shared([compiled(FIRST), compiled(SECOND)], "lib.so", open=True))
    )
    library = ctypes.CDLL(str(file))
    assert [library.run(0, 5), library.run(1, -7), library.count()] == [1015, 1007, 2]
    library.half.restype, library.half.argtypes = ctypes.c_double, (ctypes.c_double,)
    assert library.half(4.0) == 2.05
    fresh = tmp_path / "again.so"
    shutil.copy(file, fresh)
    assert ctypes.CDLL(str(fresh)).count() == 0


@HERE
def test_what_is_not_exported_cannot_be_seen_and_what_is_not_used_is_left_out(
    tmp_path: Path,
) -> None:
    large = (
        '@unused = constant [100000 x i8] zeroinitializer, section ".rodata.unused"\ndefine '
        "i32 @f() { ret i32 7 }\ndefine i32 @g() { ret i32 8 }\n"
    )
    file = tmp_path / "lib.so"
    file.write_bytes(b"".join(linking.shared([compiled(large)], "lib.so", ["f"])))
    library = ctypes.CDLL(str(file))
    assert library.f() == 7 and not hasattr(library, "g") and file.stat().st_size < 2000


@pytest.mark.parametrize(
    "texts, said",
    [
        (
            ["declare i32 @lost()\ndefine i32 @f() { %x = call i32 @lost()  ret i32 %x }"],
            "undefined symbol: lost",
        ),
        (
            ["define i32 @f() { ret i32 1 }", "define i32 @f() { ret i32 2 }"],
            "'f' is defined twice",
        ),
        (["define i32 @g() { ret i32 1 }"], "'f' is not defined"),
        (["@t = thread_local global i32 5\ndefine ptr @f() { ret ptr @t }"], "thread-local"),
        (["@c = common global i32 0\ndefine ptr @f() { ret ptr @c }"], "common symbol"),
    ],
)
def test_what_it_does_not_link_it_says(texts: list[str], said: str) -> None:
    with pytest.raises(LinkError, match=said):
        linking.shared([compiled(text) for text in texts], "lib.so", ["f"])


def test_objects_that_are_none_or_of_two_processors_are_refused() -> None:
    f = "define i32 @f() { ret i32 1 }"
    for images, said in (
        ([b"text"], "not a relocatable file"),
        ([compiled(f, "armv7-unknown-linux-gnueabihf")], "not a relocatable file"),
        ([compiled(f, "riscv64-unknown-linux-gnu")], "machine 243"),
        (
            [compiled(f), compiled("define i32 @g() { ret i32 1 }", "aarch64-unknown-linux-gnu")],
            "different processors",
        ),
    ):
        with pytest.raises(LinkError, match=said):
            linking.shared(images, "lib.so", ["f"])


def test_a_library_needs_no_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    folder = build("lstm_3x60", tmp_path / "out", "--emit", "so,h", "--size")
    if host().arch == "x86_64":
        agree("lstm_3x60", xlac.load(folder))
        assert (folder / "liblstm_3x60.so").stat().st_size <= 354_000
    other = (
        ("--triple", "aarch64-unknown-linux-gnu")
        if host().arch == "x86_64"
        else ("--triple", "x86_64-unknown-linux-gnu")
    )
    build("digits", tmp_path / "other", "--emit", "so", *other)


@pytest.mark.skipif(
    shutil.which("readelf") is None or shutil.which("ld") is None,
    reason="binutils read what was made",
)
@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
def test_tools_read_the_file_without_a_complaint(triple: str, tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    file.write_bytes(
        b"".join(
            linking.shared([compiled(FIRST, triple), compiled(SECOND, triple)], "lib.so", open=True)
        )
    )
    told = subprocess.run(["readelf", "-aW", file], capture_output=True, text=True, check=True)
    assert not told.stderr and all(
        name in told.stdout for name in ("one", "other", "run", "abs", "RELATIVE", "GLOB_DAT")
    )
    if triple.startswith(host().arch):
        (tmp_path / "user.o").write_bytes(
            compiled(
                "declare i32 @count()\ndefine i32 @_start() { %x = call i32 @count()  ret i32 %x }"
            )
        )
        subprocess.run(
            ["ld", "-o", tmp_path / "user", tmp_path / "user.o", file, "--allow-shlib-undefined"],
            check=True,
        )
