"""The text that the cuda backend writes: goldens that people read, the same bytes every time,
nothing of a user's in code.

None of this needs a compiler or a GPU.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shipped import FOLDER, MODELS

from xlac.driver import Lowered, lower, specialized
from xlac.frontends.loader import load
from xlac_cuda import BACKEND
from xlac_cuda.emit.dialect import CUDA, STATIC_SHARED
from xlac_cuda.emit.functions import functions
from xlac_cuda.emit.lowering import lowered
from xlac_sdk.conformance.steps import chain, hostile
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.ctext import kernel_text
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Barrier,
    Buffer,
    Const,
    Exchange,
    Expr,
    For,
    Kernel,
    Load,
    LoopKind,
    Space,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.spread import spread
from xlac_sdk.target import Request

if TYPE_CHECKING:
    from goldens import Golden

P, F32, I64 = Primitive, DType.F32, DType.I64
TARGET = BACKEND.target(Request(arch="sm_90a"))
READ = ("mul_add_reduce", "softmax", "mlp_small", "bias_relu_softmax")


@cache
def made(spec: str) -> Lowered:
    return lower(specialized(load(FOLDER / f"{spec}.yaml")), TARGET)


def text_of(spec: str) -> str:
    (text,) = BACKEND.emit(made(spec).program, TARGET).values()
    return text


# ---- shipped specs -----------------------------------------------------------------------------


@pytest.mark.parametrize("spec", READ)
def test_text_that_people_read(spec: str, golden: Golden) -> None:
    golden.check(f"cuda/{spec}.cu", text_of(spec))


@pytest.mark.parametrize("spec", [p.stem for p in MODELS])
@pytest.mark.sampled(8)
def test_every_spec_has_text(spec: str) -> None:
    """A kernel for each of the program, above it the lines of the spec that it computes."""
    text = text_of(spec)
    program = made(spec).program
    assert text.count('extern "C" __global__') == len(program.kernels) > 0
    assert text.isascii() and str(FOLDER) not in text
    for line in re.findall(rf"^ +{spec}\.yaml:(\d+) (.*?)(?: \*/)?$", text, re.MULTILINE):
        assert (
            (FOLDER / f"{spec}.yaml")
            .read_text()
            .splitlines()[int(line[0]) - 1]
            .strip()
            .startswith(line[1][:20].strip())
        )


@pytest.mark.parametrize(
    ("spec", "kernels"),
    [("mul_add_reduce", 1), ("softmax", 1), ("layernorm_gelu", 1), ("elementwise_chain", 1)],
)
def test_fused_specs_are_few_kernels(spec: str, kernels: int) -> None:
    assert len(made(spec).program.kernels) == kernels


def test_a_sum_of_products_moves_its_three_operands_once() -> None:
    """`sum(x + y * z)` is one kernel that reads 3 N elements, and nothing in between goes through
    memory.
    """
    program = made("mul_add_reduce").program
    elements = sum(slot.size for slot in program.inputs)
    assert program.arena_bytes == 0
    assert program.work.bytes == 4 * (elements + 1) and elements == 3 * 65536
    (kernel,) = lowered(program, TARGET).kernels
    assert [b.access for b in kernel.parameters] == [Access.READ] * 3 + [Access.WRITE]


def test_wide_accesses_where_addresses_are_known() -> None:
    """16 bytes at once for arrays and places that are multiples of 16."""
    text = text_of("elementwise_chain")
    assert "*(const f32x4 *)&" in text and "*(f32x4 *)&" in text


# ---- what must always hold ---------------------------------------------------------------------


@pytest.mark.long
def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    """In this process, and in others with other hashes of strings."""
    assert BACKEND.emit(chain().program, TARGET) == BACKEND.emit(chain().program, TARGET)
    command = [
        sys.executable,
        "-c",
        "from xlac.cli import main; main()",
        "build",
        str(FOLDER / "bias_relu_softmax.yaml"),
        "--target",
        "cuda",
        "--arch",
        "sm_90a",
        "--emit",
        "cu",
    ]
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        subprocess.run(
            [*command, "-o", str(folder)],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        found.append({p.name: p.read_bytes() for p in folder.iterdir()})
    assert found[0] == found[1] and "bias_relu_softmax.cu" in found[0]


def test_no_text_of_a_user_reaches_the_code() -> None:
    ((name, text),) = BACKEND.emit(hostile().program, TARGET).items()
    assert re.fullmatch(r"\w+\.cu", name) and text.isascii()
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    assert "system" not in code and "<none>" not in code and "%" not in code


def test_lines_of_a_spec_cannot_end_their_comment(tmp_path: Path) -> None:
    spec = tmp_path / "evil.yaml"
    spec.write_text(
        'xlac: 1\nmodel: "*/ #error"\ninputs: {x: "f32[8]"}\ngraph:\n  y: exp(x)  # */ #error ??/ '
        "\\\noutputs: [y]\n"
    )
    (text,) = BACKEND.emit(lower(specialized(load(spec)), TARGET).program, TARGET).values()
    assert "evil.yaml:5" in text
    assert "#error" not in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.mark.parametrize(
    "name",
    [
        "threadIdx",
        "blockIdx",
        "float",
        "max_f32",
        "f32x4",
        "warpSize",
        "memcpy",
        "exp",
        "i_",
        "template",
    ],
)
def test_names_that_mean_something_are_changed(name: str) -> None:
    assert CUDA.identifier(name) != name
    assert CUDA.identifier(name).isidentifier()


# ---- words of the language ---------------------------------------------------------------------

BLOCK, THREAD = Var("b", I64, low=0, high=3), Var("t", I64, low=0, high=63)


def kernel(*body: Any, shared: tuple[Buffer, ...] = ()) -> Kernel:
    x, y = Buffer("x", F32, 256), Buffer("y", F32, 256, access=Access.UPDATE)
    zero = Const(0, I64)
    inner = For(THREAD, zero, Const(64, I64), tuple(body), kind=LoopKind.THREAD)
    outer = For(BLOCK, zero, Const(4, I64), (*map(Allocate, shared), inner), kind=LoopKind.BLOCK)
    return Kernel("k", (x, y), (outer,))


def lines(made: Kernel) -> str:
    return "\n".join(kernel_text(made, CUDA).lines)


def test_threads_meet_and_exchange() -> None:
    """An exchange has a statement of its own: `?:` would leave out threads whose condition is
    false.
    """
    few = build.apply(P.LT, THREAD, build.index(3))
    value: Expr = build.select(few, Exchange(build.cast(THREAD, F32), 16), Const(0.0, F32))
    made = kernel(Barrier(), Store(Buffer("y", F32, 256, access=Access.UPDATE), THREAD, value))
    text = lines(made)
    assert "    __syncthreads();" in text
    assert re.search(r"const float e1_ = exchange_f32\(.*, 16\);\n.*\? e1_ : ", text)


@pytest.mark.parametrize(
    ("p", "dtype", "call"),
    [(P.ADD, DType.F32, "atomicAdd(place, value)"), (P.MAX, DType.I32, "atomicMax((int *)place"),
     (P.MIN, DType.U64, "atomicMin((unsigned long long *)place"),
     (P.MAX, DType.F32, "atomicCAS"), (P.MUL, DType.F64, "atomicCAS"),
     (P.ADD, DType.U8, "atomicCAS"), (P.OR, DType.BOOL, "atomicCAS")],
)  # fmt: skip
def test_atomic_stores_are_atomic(p: Primitive, dtype: DType, call: str) -> None:
    y = Buffer("y", dtype, 4, access=Access.UPDATE)
    store = Store(y, Const(0, I64), Const(1, dtype), atomic=p)
    made = kernel_text(spread(Kernel("k", (y,), (store,))), CUDA)
    assert any(f"atomic_{p.value}_{dtype}(&y[0], " in line for line in made.lines)
    assert call in functions()[f"atomic_{p.value}_{dtype}"]


def test_large_shared_memory_is_one_pool() -> None:
    """Up to 48 KiB the kernel declares it; beyond, the launch says how much, and buffers are parts
    of it.
    """
    few, many = (
        Buffer("tile", F32, STATIC_SHARED // 8, Space.SHARED),
        Buffer("tile", F32, STATIC_SHARED // 4 + 1, Space.SHARED),
    )
    other = Buffer("other", F32, 8, Space.SHARED, align=16)
    x = Buffer("x", F32, 256)
    small = lines(kernel(Store(few, THREAD, Load(x, THREAD)), shared=(few,)))
    assert f"__shared__ __align__(64) float tile[{few.size}];" in small and "extern" not in small
    made = kernel(Store(many, THREAD, Load(x, THREAD)), shared=(other, many))
    large = lines(made)
    assert "extern __shared__ __align__(64) unsigned char pool_[];" in large
    assert (
        "float *const tile = (float *)pool_;" in large
        and f"float *const other = (float *)(pool_ + {4 * many.size + 12});" in large
    )
    found = grid(made)
    assert found is not None and found.shared_bytes == 4 * many.size + 12 + 32
