"""Products of bytes by a matrix unit (AMX): what the instruction means, on this processor and by
the interpreter; contractions whose schedules choose it; and the code of a processor that has it.

Where this processor has none, its meaning is what runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from byte_graph import ByteGraph
from cpu_programs import both, kernel_of, machine, program_of, same
from processors import needs_processor

from xlac import driver
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.cpu.gemm.matrix_unit import tile_choice
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Param
from xlac_cpu.emit.bytes.matrix_tiles import configuration
from xlac_cpu.llvm import tile_registers
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.build import add, load, mul
from xlac_sdk.kernel_ir.kernel import Instruction, statements
from xlac_sdk.kernel_ir.matrix_tiles import MULTIPLY, MatrixBlock, SumLoop, TileProduct
from xlac_sdk.source import UnavailableError
from xlac_sdk.target import Request, Target

BLOCKS = {
    "whole": MatrixBlock((16, 16), (0, 16 * 200), 200, 2, 16, 16, 32, 0, (SumLoop(3, 64, 512),)),
    "one group": MatrixBlock((7,), (0,), 100, 4, 16, 16, 64, 0, (SumLoop(1, 64, 1024),)),
    "uneven": MatrixBlock((13, 12), (0, 13 * 90), 90, 1, 16, 6, 16, 0, (SumLoop(2, 24, 96),)),
    "two rows": MatrixBlock((5, 5), (0, 700), 64, 2, 16, 3, 32, 0, (SumLoop(4, 12, 96),)),
    "nested": MatrixBlock(
        (8,), (0,), 32, 3, 16, 8, 48, 0, (SumLoop(3, 256, 768), SumLoop(2, 32, 384))
    ),
    "prefetching": MatrixBlock((9, 9), (0, 288), 32, 2, 16, 4, 32, 4, (SumLoop(2, 16, 128),)),
}


@pytest.mark.parametrize("word", MULTIPLY)
@pytest.mark.parametrize("name", BLOCKS)
def test_the_instruction_is_what_it_means(name: str, word: DType) -> None:
    block = BLOCKS[name]
    assert MatrixBlock.read(block.numbers()) == block
    byte = DType.U8 if word is DType.U32 else DType.I8
    rows, rng = sum(block.heights), np.random.default_rng(7)
    x = rng.integers(-128, 128, 8192).astype(np.int8).view(byte.numpy)
    y = rng.integers(-(1 << 31), 1 << 31, 8192).astype(np.int32)
    x[:512], y[:256] = byte.numpy.type(-1 if byte is DType.I8 else 255), -2139062144  # all -128

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("t", 0, 3) as t:
            kept = b.local("kept", DType.I32, rows * block.width)
            at, first = b.let("at", mul(t, 64)), mul(t, rows * block.width)
            TileProduct(kept, buffers["x"], at, buffers["y"], at, at, block).write(b, word)
            with b.loop("i", 0, rows * block.width) as i:
                b.store(buffers["s"], add(first, i), load(kept, i))

    reads = {"x": (byte, len(x)), "y": (DType.I32, len(y))}
    kernel = kernel_of(body, reads, {"s": (DType.I32, 3 * rows * block.width)})
    ours, right = both(kernel, _able(machine()), x=x, y=y)
    assert same(ours["s"], right["s"]) and right["s"].any()


def _able(target: Target) -> Target:
    """The target with the instructions, which it emits only where its processor has them."""
    return replace(target, instructions=frozenset(MULTIPLY.values()))


def _with_unit(target: Target) -> Target:
    """The target of a processor like its own that has the unit."""
    facts = json.dumps({**json.loads(target.facts), "matrix": True}, sort_keys=True)
    return _able(replace(target, facts=facts))


class Contractions(ByteGraph):
    """Contractions of bytes, with a constant added."""

    def operand(self, dtype: DType, shape: tuple[int, ...], weight: bool) -> tuple[Node, Array]:
        """Its bytes are the type's extremes and what is between."""
        info = np.iinfo(dtype.numpy)
        values = self.rng.integers(info.min, info.max + 1, shape).astype(dtype.numpy)
        values.reshape(-1)[:: 7 if weight else 5] = info.min if weight else info.max
        return self.param(values, weight), values

    def contract(self, op: Dot | Conv, x: DType, *shapes: tuple[int, ...]) -> None:
        """Contracts an input with a weight, which is the right operand."""
        left, a = self.operand(x, shapes[0], False)
        right, b = self.operand(DType.I8, shapes[1], True)
        node = build.add(Node.of(op, left, right), build.constant(np.int32(3)))
        self.add(node, np.asarray(op.evaluate(a.astype(np.int32), b.astype(np.int32))) + 3)


def check(case: ByteGraph, threads: int, every: bool = True) -> None:
    """Results are exact, and by the matrix unit (`every` one, or some)."""
    backend = find("cpu")
    target = _able(backend.target(Request(threads=threads, cpu="" if HAS else "x86-64-v4")))
    used = [kernel for kernel in case.check(target).kernels if by_matrix_unit(kernel.body)]
    assert len(used) == len(case.outputs) or (used and not every)


HAS = bool(machine().instructions)


def by_matrix_unit(body) -> list[str]:  # type: ignore[no-untyped-def]
    """The instructions of a matrix unit in a block."""
    found = (stmt.name for stmt in statements(body) if isinstance(stmt, Instruction))
    return [name for name in found if name in MULTIPLY.values()]


@pytest.mark.parametrize("threads", [1, 2])
def test_products(threads: int) -> None:
    """Tiles of every kind, with rows and columns left over, of sums of few and of many steps."""
    needs_processor("" if HAS else "x86-64-v4")
    case = Contractions()
    op = Dot((), (), (1,), (0,), DType.I32)
    sizes = (
        (64, 256, 64), (49, 576, 64), (100, 64, 48), (17, 320, 33), (33, 768, 40), (16, 768, 130),
        (31, 80, 100), (200, 96, 65), (9, 512, 512), (130, 2048, 20),
    )  # fmt: skip
    for number, (rows, depth, columns) in enumerate(sizes):
        case.contract(op, (DType.U8, DType.I8)[number % 2], (rows, depth), (depth, columns))
    batched = Dot((0,), (0,), (2,), (1,), DType.I32)
    case.contract(batched, DType.U8, (3, 40, 128), (3, 128, 48))
    check(case, threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions(threads: int) -> None:
    """Windows over rows longer and shorter than a register, strides, and odd numbers of rows."""
    needs_processor("" if HAS else "x86-64-v4")
    case, places = Contractions(), (("NHWC", "HWIO", "NHWC"),)
    cases = (
        (28, 64, 64, 3, 1), (14, 32, 48, 3, 1), (7, 64, 96, 3, 1), (7, 128, 40, 1, 1),
        (56, 32, 32, 1, 1), (28, 48, 64, 3, 2), (13, 64, 33, 5, 1),
    )  # fmt: skip
    for (number, (size, channels, out, taps, stride)), layout in product(enumerate(cases), places):
        pads = ((taps // 2,) * 2,) * 2
        op = Conv(layout, (stride,) * 2, *pads, (1, 1), (1, 1), 1, 1, DType.I32)
        x = (DType.U8, DType.I8)[number % 2]
        case.contract(op, x, (1, size, size, channels), (taps, taps, channels, out))
    check(case, threads)


def test_random_sizes() -> None:
    needs_processor("" if HAS else "x86-64-v4")
    case, rng = Contractions(), np.random.default_rng()
    op = Dot((), (), (1,), (0,), DType.I32)
    for _ in range(8):
        rows, depth, columns = rng.integers((8, 8, 16), (120, 80, 150))
        case.contract(op, DType.U8, (int(rows), 8 * int(depth)), (8 * int(depth), int(columns)))
    check(case, 1, every=False)


@pytest.mark.parametrize(
    ("rows", "columns", "words", "tile"),
    [
        ((1, 512), 512, 128, ((1, 32), 2)),
        ((1, 49), 64, 144, ((1, 25), 2)),
        ((14, 14), 64, 144, ((2, 14), 2)),
        ((1, 8), 512, 128, ((1, 8), 4)),
    ],
)
def test_tiles_fill_the_registers(rows, columns, words, tile) -> None:  # type: ignore[no-untyped-def]
    nothing = OperandSource(Scratch(DType.U8, 0, "x"), DType.U8)
    axes = (Axis(rows[0], 4 * words * rows[1]), Axis(rows[1], 4 * words))
    inner, place = (Axis(words, 4, columns),), lambda outer, rows, column: ()
    given = ((), axes, Axis(columns, 0, 1), inner, nothing, nothing, DType.I32, place)
    c = Contraction(*given, word=1)
    wanted = RegisterTile(tile[0], tile[1], 16)
    assert min(tile_choice.tiles(c), key=lambda one: tile_choice.whole(c, one)) == wanted


def test_a_program_for_amx_configures_its_registers_once() -> None:
    """The code of a processor that has the unit, on any machine."""
    op = Dot((), (), (1,), (0,), DType.I32)
    x = Node.of(Param("x", Type(DType.U8, (100, 256)), "input"))
    w = Node.of(Param("w", Type(DType.I8, (256, 80)), "weight"))
    model = Model(Graph("g", (x,), {"y": Node.of(op, x, w)}), {"w": np.ones((256, 80), np.int8)})
    backend = find("cpu")
    plain = backend.target(Request(cpu="sapphirerapids", triple="x86_64-unknown-linux-gnu"))
    assert not plain.instructions  # whether its system gives the registers is not known here
    lowered = driver.lower(model, _with_unit(plain))
    text = backend.asm(lowered.program, lowered.target)
    assert text.count("tdpbusd") == 4 + 2  # two groups by two vectors, and by the one left over
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert "vpdpbusd" not in text


def test_a_configuration_is_independent_of_the_vectors_that_are_left() -> None:
    block = BLOCKS["uneven"]
    text = configuration(block)
    assert text == configuration(replace(block, vectors=2)) and text[0] == 1
    assert list(text[48:56]) == [13, 13, 12, 12, 13, 12, 6, 6]
    assert [text[16 + 2 * n] for n in range(8)] == [64, 64, 64, 64, 24, 24, 64, 64]


SCRIPT = """
import sys, numpy as np, xlac
print(int(np.asarray(xlac.compile(sys.argv[1])(np.ones((100, 256), np.uint8))).sum()))
"""


def test_another_process_runs_a_kept_program(tmp_path: Path) -> None:
    """It finds the program without asking LLVM what this processor has."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    x = helper.make_tensor_value_info("x", kinds.UINT8, [100, 256])
    y = helper.make_tensor_value_info("y", kinds.INT32, [100, 80])
    w = onnx.numpy_helper.from_array(np.ones((256, 80), np.int8), "w")
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [w])
    sets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), tmp_path / "g.onnx")
    env = os.environ | {"XLAC_CACHE": str(tmp_path / "kept")}
    for _ in range(3):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "g.onnx")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, str(100 * 256 * 80)), done.stderr


def test_code_is_not_loaded_where_the_registers_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tile_registers, "permitted", lambda: False)
    backend, program = find("cpu"), program_of(kernel_of(lambda b, buffers: None, {}, {}))
    assert backend.revive(str(tmp_path), program, _with_unit(machine())) is None
    with pytest.raises(UnavailableError, match="AMX"):
        backend.load(tmp_path / "program.a", program, _with_unit(machine()))
