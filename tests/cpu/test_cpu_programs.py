"""Whole programs: host control flow, constants, state, one code for equal kernels, text that does
not vary.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from cpu_programs import both_programs, kernel_of, loaded, machine, outputs_of, program_of, same

from xlac_cpu import BACKEND
from xlac_cpu.emit import layout
from xlac_cpu.llvm import link
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import add, apply, index, load, ramp
from xlac_sdk.kernel_ir.kernel import Const, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering import alignment
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    While,
)
from xlac_sdk.source import UnsupportedError

P = Primitive
F32, I32, BOOL = DType.F32, DType.I32, DType.BOOL


def slot(name: str, dtype: DType, size: int, role: Role, offset: int = 0) -> Slot:
    return Slot(name, name, dtype, (size,), role, offset)


def plus(amount: float, count: int = 16, name: str = "plus") -> Kernel:
    def body(b, buffers):  # type: ignore[no-untyped-def]
        at = ramp(0, 1, count)
        b.store(buffers["y"], at, apply(P.ADD, load(buffers["x"], at), Const(amount, F32)))

    return kernel_of(body, {"x": (F32, count)}, {"y": (F32, count)}, name=name)


def test_loops_branches_and_moving_arguments() -> None:
    """Each case in one program: Repeat with strides, While on a flag, Branch by an index out of
    range.
    """
    x, y = slot("x", F32, 64, Role.INPUT), slot("y", F32, 64, Role.OUTPUT)
    which, z = slot("which", I32, 1, Role.INPUT), slot("z", F32, 16, Role.OUTPUT)
    count, flag = slot("count", I32, 1, Role.TEMPORARY), slot("flag", BOOL, 1, Role.TEMPORARY, 64)
    rows = slot("rows", F32, 16, Role.TEMPORARY, 128)
    c = slot("c", F32, 16, Role.CONSTANT)

    def zero(b, buffers):  # type: ignore[no-untyped-def]
        b.store(buffers["n"], index(0), Const(0, I32))

    def more(b, buffers):  # type: ignore[no-untyped-def]
        b.store(buffers["f"], index(0), apply(P.LT, load(buffers["n"], index(0)), Const(5, I32)))

    def step(b, buffers):  # type: ignore[no-untyped-def]
        b.store(buffers["n"], index(0), apply(P.ADD, load(buffers["n"], index(0)), Const(1, I32)))
        at = ramp(0, 1, 16)
        b.store(buffers["r"], at, apply(P.MUL, load(buffers["r"], at), Const(2.0, F32)))

    start = kernel_of(zero, {}, {"n": (I32, 1)}, name="zero")
    test = kernel_of(more, {"n": (I32, 1)}, {"f": (BOOL, 1)}, name="more")
    go = kernel_of(step, {}, {}, {"n": (I32, 1), "r": (F32, 16)}, name="step")
    one = plus(1.0)
    moved = (("t", 16),)
    steps = (
        Repeat("t", 4, (Launch(one, (Argument(x, 0, moved), Argument(y, 0, moved))),)),
        Copy(Argument(rows), Argument(c), 16),
        Launch(start, (Argument(count),)),
        While(
            (Launch(test, (Argument(count), Argument(flag))),),
            Argument(flag),
            (Launch(go, (Argument(count), Argument(rows))),),
        ),
        Branch(
            Argument(which),
            (
                (Launch(plus(10.0), (Argument(rows), Argument(z))),),
                (Launch(plus(20.0), (Argument(rows), Argument(z))),),
                (Copy(Argument(z), Argument(x, 48), 16),),
            ),
        ),
    )
    program = Program(
        "p",
        (x, which),
        (y, z),
        (x, which, y, z, count, flag, rows, c),
        steps,
        {"c": np.arange(16, dtype="f4")},
        arena_bytes=192,
    )
    for value in (0, 1, 2, 3, -1):
        inputs = {"x": np.arange(64, dtype="f4"), "which": np.array([value], "i4")}
        ours, right = both_programs(program, machine(), inputs)
        assert same(ours["y"], right["y"]) and same(ours["z"], right["z"]), value


def test_alignment_is_what_every_launch_keeps() -> None:
    """A place in the arena that is not a cache line's start, a moving argument, and the caller's
    arrays.
    """
    t, x = slot("t", F32, 256, Role.TEMPORARY, 128), slot("x", F32, 64, Role.INPUT)
    for argument, known in (
        (Argument(t), 64),
        (Argument(t, 4), 16),
        (Argument(t, 0, (("i", 3),)), 4),
        (Argument(x), 4),
        (Argument(x, 16), 4),
    ):
        assert alignment.known(argument, layout.start) == known
    kernel, y = plus(1.0), slot("y", F32, 20, Role.OUTPUT)
    steps = (
        Copy(Argument(t), Argument(x), 64),
        Launch(kernel, (Argument(t), Argument(t, 80))),
        Launch(kernel, (Argument(t, 81), Argument(t, 101))),
        Copy(Argument(y), Argument(t, 101), 16),
    )
    program = Program("p", (x,), (y,), (t, x, y), steps, {}, arena_bytes=2048)
    assert layout.alignments(program)[kernel] == (4, 4)
    loaded(program, machine()).run({"x": np.zeros(64, "f4")}, {"y": np.zeros(20, "f4")})


def test_state_is_kept_and_calls_take_turns() -> None:
    s, y = slot("s", F32, 16, Role.STATE), slot("y", F32, 16, Role.OUTPUT)
    one = plus(1.0)
    steps = (Launch(one, (Argument(s), Argument(y))), Copy(Argument(s), Argument(y), 16))
    executable = loaded(Program("p", (), (y,), (s, y), steps, {}, state_bytes=64), machine())
    assert executable.fast is None

    def work() -> None:
        for _ in range(50):
            executable.run({}, {"y": np.empty(16, "f4")})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = np.empty(16, "f4")
    executable.run({}, {"y": last})
    assert (last == 201).all()


def test_equal_kernels_are_one_function() -> None:
    x, y, z = (
        slot("x", F32, 16, Role.INPUT),
        slot("y", F32, 16, Role.OUTPUT),
        slot("z", F32, 16, Role.OUTPUT),
    )
    steps = tuple(
        Launch(plus(1.0, name=n), (Argument(x), Argument(t)))
        for n, t in (("first", y), ("second", z))
    )
    program = Program("p", (x,), (y, z), (x, y, z), steps, {})
    text = BACKEND.emit(program, machine())["program.ll"]
    assert text.count("define hidden") == 1 and text.count("call void @k0_first") == 2


def test_many_kernels_make_several_modules_that_link() -> None:
    x, y = slot("x", F32, 16, Role.INPUT), slot("y", F32, 16, Role.OUTPUT)
    middle = slot("m", F32, 16, Role.TEMPORARY)
    steps = [Launch(plus(0.0), (Argument(x), Argument(middle)))]
    for i in range(300):  # more than one segment, too
        turn = (Argument(middle), Argument(y)) if i % 2 == 0 else (Argument(y), Argument(middle))
        steps.append(Launch(plus(float(i % 70), name=f"n{i}"), turn))
    program = Program(
        "p",
        (x,),
        (y,),
        (x, y, middle),
        (*steps, Copy(Argument(y), Argument(middle), 16)),
        {},
        arena_bytes=64,
    )
    sources = BACKEND.emit(program, machine())
    assert len(sources) == 3 and sources["program.ll"].count("define internal void @segment_") == 3
    y_ours = loaded(program, machine()).fast(np.zeros(16, "f4"))
    assert (y_ours == sum(i % 70 for i in range(300))).all()


def test_text_and_objects_do_not_vary() -> None:
    """Another process, with another hash seed, writes the same bytes."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from cpu_programs import *; from test_cpu_programs import plus\n"
        "from xlac_cpu.llvm import objects; import hashlib\n"
        "text = BACKEND.emit(program_of(plus(3.0)), machine(2))['program.ll']\n"
        "print(hashlib.sha256(text.encode() + objects.object_code(text)).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_building_again_finds_the_object(tmp_path: Path) -> None:
    program = program_of(plus(3.0))
    sources = BACKEND.emit(program, machine())
    made = BACKEND.build(sources, tmp_path)
    stamp = made.stat().st_mtime_ns
    assert BACKEND.build(sources, tmp_path) == made and made.stat().st_mtime_ns == stamp
    assert list(tmp_path.iterdir()) == [made]
    other = BACKEND.build(BACKEND.emit(program_of(plus(4.0)), machine()), tmp_path)
    assert other != made


def test_a_damaged_artefact_is_refused(tmp_path: Path) -> None:
    program = program_of(plus(3.0))
    made = BACKEND.build(BACKEND.emit(program, machine()), tmp_path)
    made.write_bytes(made.read_bytes()[:-100])
    with pytest.raises(UnsupportedError, match="XL5108"):
        BACKEND.load(made, program, machine())
    assert link.members(link.archive([b"abc", b"", b"1234"], ["a.o", "b.o", "c.o"])) == {
        "a.o": b"abc",
        "b.o": b"",
        "c.o": b"1234",
    }


def test_mapped_constants_are_used_in_place(tmp_path: Path) -> None:
    """Large weights are not copied; misaligned ones are, and read right."""
    data = np.arange(1 << 19, dtype="f4")
    (tmp_path / "w").write_bytes(b"abcd" * 3 + data.tobytes())
    for offset, in_place in ((12, True), (10, False)):
        raw = np.memmap(tmp_path / "w", np.uint8, "r", offset, (len(data) * 4,))
        weights = raw.view("f4")
        c, y = slot("c", F32, len(data), Role.CONSTANT), slot("y", F32, len(data), Role.OUTPUT)
        program = Program(
            "p", (), (y,), (c, y), (Copy(Argument(y), Argument(c), len(data)),), {"c": weights}
        )
        executable = loaded(program, machine())
        assert np.shares_memory(executable._constants[0], raw) == in_place
        assert executable.fast().tobytes() == raw.tobytes()


def test_sizes_zero_and_empty_programs() -> None:
    x, y = slot("x", F32, 0, Role.INPUT), slot("y", F32, 0, Role.OUTPUT)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 0, 1) as i:
            b.store(buffers["y"], i, load(buffers["x"], add(i, 0)))

    kernel = kernel_of(body, {"x": (F32, 0)}, {"y": (F32, 0)})
    program = Program(
        "p",
        (x,),
        (y,),
        (x, y),
        (Launch(kernel, (Argument(x), Argument(y))), Copy(Argument(y), Argument(x), 0)),
        {},
    )
    assert loaded(program, machine()).fast(np.empty(0, "f4")).shape == (0,)
    nothing = Program("p", (), (), (), (), {})
    loaded(nothing, machine()).run({}, outputs_of(nothing))
    assert loaded(nothing, machine()).fast() == ()


def test_an_unclaimed_call_is_refused() -> None:
    y = slot("y", F32, 1, Role.OUTPUT)
    with pytest.raises(UnsupportedError, match="XL5104"):
        BACKEND.emit(Program("p", (), (y,), (y,), (Call("matmul", (Argument(y),)),), {}), machine())
