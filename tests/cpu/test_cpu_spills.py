"""No registers are spilled in inner loops: the assembly of the main kernels, for four kinds of
machines, is read.

An access of the stack in an innermost loop is counted for a spill. Products have none; what has
more values at once than registers (a long chain, a transform of 36 values, sums of long products
that wait in memory, two or three rows of a softmax or four vectors of a long chain at once, which
take a fifth to a half less time so) has as many as said here, and a change that adds some is seen.
Of attention's and Winograd's, many are addresses, as loops of products are not strength-reduced:
they take no longer so.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from xlac.driver import lower
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

MACHINES = {
    "avx512": Request(cpu="x86-64-v4"),
    "avx2": Request(cpu="x86-64-v3"),
    "sse": Request(cpu="x86-64-v2"),
    "neon": Request(cpu="cortex-a76", triple="aarch64-unknown-linux-gnu"),
}

ALLOWED = {
    "product at run time": {"sse": 8},  # to pack a panel
    "product of one row": {"avx512": 4, "avx2": 1, "sse": 4},
    "convolution": {"avx512": 6, "avx2": 13, "sse": 4},
    "convolution at points": {"avx512": 29, "avx2": 48, "sse": 44, "neon": 4},
    "convolution at more points": {"avx512": 108, "avx2": 203, "sse": 181, "neon": 224},
    "depthwise by pixel": {"sse": 2},
    "softmax": {"avx512": 8, "avx2": 25, "sse": 16},
    "gelu": {"avx512": 8, "avx2": 52, "sse": 73, "neon": 33},
    "attention": {"avx512": 83, "avx2": 118, "sse": 20},
}
"""Accesses of the stack in the innermost loops of a program, where there are any."""


def param(name: str, *shape: int, kind: str = "input") -> Node:
    return Node.of(Param(name=name, type=Type(DType.F32, shape), kind=kind))


def conv(
    x: Node, taps: int, columns: int, *, stride: int = 1, groups: int = 1, first: bool = False
) -> Node:
    layout = ("NCHW", "OIHW", "NCHW") if first else ("NHWC", "HWIO", "NHWC")
    channels = x.shape[layout[0].index("C")]
    assert isinstance(channels, int)
    shape = {"H": taps, "W": taps, "I": channels // groups, "O": columns}
    around, ones = (taps // 2, taps // 2), (1, 1)
    kernel = param("kernel", *(shape[letter] for letter in layout[1]), kind="weight")
    return Node.of(Conv(layout, (stride, stride), around, around, ones, ones, groups), x, kernel)


def matmul(rows: int, depth: int, columns: int, kind: str = "weight") -> Node:
    return Node.of(
        Dot((), (), (1,), (0,)), param("x", rows, depth), param("w", depth, columns, kind=kind)
    )


def finished(anchor: Node) -> Node:
    return build.apply1(
        "relu", build.add(anchor, param("bias", *map(int, anchor.shape[-1:]), kind="weight"))
    )


KERNELS = {
    "product": finished(matmul(256, 256, 256)),
    "product at run time": matmul(256, 256, 256, "input"),
    "product of a short sum": matmul(256, 8, 256),
    "product of one row": matmul(1, 512, 512),
    "convolution": finished(conv(param("x", 1, 28, 28, 64), 5, 64)),
    "convolution at points": finished(conv(param("x", 1, 28, 28, 64), 3, 64)),
    "convolution at more points": finished(conv(param("x", 1, 28, 28, 64), 3, 64)),
    "convolution of one tap": finished(conv(param("x", 1, 28, 28, 64), 1, 128)),
    "stem": conv(param("x", 1, 112, 112, 3), 7, 64, stride=2),
    "stem of one channel": conv(param("x", 1, 28, 28, 1), 3, 32, stride=2),
    "depthwise": conv(param("x", 1, 28, 28, 96), 3, 96, groups=96),
    "depthwise by pixel": conv(param("x", 1, 96, 28, 28), 3, 96, groups=96, first=True),
    "softmax": build.apply1("softmax", param("x", 64, 512)),
    "layer_norm": build.apply1(
        "layer_norm",
        param("x", 64, 512),
        param("s", 512, kind="weight"),
        param("b", 512, kind="weight"),
    ),
    "gelu": build.apply1("gelu", param("x", 64, 512)),
    "attention": build.apply1("attention", *(param(name, 1, 4, 64, 64) for name in "qkv")),
}


def assembly(name: str, request: Request) -> str:
    params = [n for n in walk([KERNELS[name]]) if isinstance(n.op, Param)]
    weights = {n.op.name: np.zeros(n.shape, np.float32) for n in params if n.op.kind == "weight"}
    graph = Graph("kernel", tuple(n for n in params if n.op.kind == "input"), {"y": KERNELS[name]})
    model = Model(graph, weights, precision="fast" if name.endswith("more points") else "default")
    backend = find("cpu")
    program = lower(model, backend.target(request))
    return backend.asm(program.program, program.target)


def innermost(text: str) -> list[list[str]]:
    """The innermost loops of an assembly: what is between a label and a jump back to it, with no
    such pair inside.

    A loop that calls a kernel's strips is around the loops of the function that it calls.
    """
    lines, labels, loops = text.splitlines(), dict[str, int](), set[tuple[int, int]]()
    for number, line in enumerate(lines):
        label = re.match(r"([.\w$]+):", line)
        if label:
            labels[label[1]] = number
            continue
        words = re.split(r"#|//", line)[0].split()
        if words and re.fullmatch(r"j\w+|b(\.?\w\w)?|[ct]bn?z", words[0]) and words[-1] in labels:
            loops.add((labels[words[-1]], number))
    inner = [
        (a, b)
        for a, b in loops
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)
    ]
    found = [lines[a : b + 1] for a, b in sorted(inner)]
    return [
        loop
        for loop in found
        if not any(re.search(r"\b(callq?|bl)\s+\S+\.strip\b", line) for line in loop)
    ]


STACK = re.compile(r"\(%rsp|\[sp[,\]]")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", KERNELS)
def test_inner_loops_leave_the_stack_alone(name: str, machine: str) -> None:
    loops = innermost(assembly(name, MACHINES[machine]))
    assert loops, f"no loop in {name}"
    found = sum(bool(STACK.search(line)) for loop in loops for line in loop)
    assert found <= ALLOWED.get(name, {}).get(machine, 0)


def test_spills_are_seen() -> None:
    """The reader itself: an inner loop that uses the stack, one that does not, and an outer loop
    that does.
    """
    text = """
.LBB0_1:
    movaps %xmm0, 16(%rsp)
.LBB0_2:
    mulps %xmm1, %xmm2
    movaps -24(%rsp), %xmm3   # 16-byte Reload
    jne .LBB0_2
    jb .LBB0_1
.LBB0_3:
    ldr q2, [sp, #16]
    b.lo .LBB0_3
    cbnz x8, .LBB0_4
.LBB0_4:
"""
    assert [sum(bool(STACK.search(line)) for line in loop) for loop in innermost(text)] == [1, 1]


def test_lanes_of_the_left_are_multiplied_on_arm() -> None:
    """`fmla v, v, v.s[0]`: no instruction spreads an element over a vector."""
    loop = max(innermost(assembly("product", MACHINES["neon"])), key=len)
    products = [line for line in loop if "fmla" in line]
    assert len(products) > 20 and sum(".s[" in line for line in products) >= len(products) * 0.9
    assert not any("dup" in line for line in loop)
