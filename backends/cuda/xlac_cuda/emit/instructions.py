"""The CUDA spelling of instructions that schedules use: `matrix.multiply.…`, `grid.arrive`.

Their semantics are defined by the schedules (`xlac.codegen.gpu.core.instructions`); the functions
called here are in `templates`.
"""

from __future__ import annotations

from importlib.resources import files

MULTIPLY = (
    "multiply_warp<{kind}, {{8}}, {{9}}, {{10}}, {{11}}, {{12}}, {{13}}>({{0}}, &{{1}}[{{2}}], "
    "{{3}}, &{{4}}[{{5}}], {{6}}, {{7}})"
)

# for f32 operands, if a model's precision allows rounding them
TF32 = "matrix.multiply.m16n8k8.tf32"

INSTRUCTIONS = {
    "copy.async.16": "copy_async(&{0}[{1}], &{2}[{3}], {4})",
    "copy.async.commit": "copy_commit()",
    "copy.async.wait": "copy_wait<{0}>()",
    "warp.barrier": "warp_barrier()",
    "memory.fence": "memory_fence()",
    "grid.arrive": "take_ticket(&{0}[{1}], {2}, &{3}[0])",
    "matrix.multiply.m16n8k16.bf16": MULTIPLY.format(kind="Bf16Product"),
    "matrix.multiply.m16n8k16.f16": MULTIPLY.format(kind="F16Product"),
    "matrix.multiply.m16n8k32.i8": MULTIPLY.format(kind="I8Product"),
    TF32: MULTIPLY.format(kind="Tf32Product"),
}
"""The spelling by name, with operands in the order of the schedules."""

MULTIPLY_GROUP = "multiply_group<{kind}, {{6}}, {{7}}>({{0}}, &{{1}}[{{2}}], {{3}}, &{{4}}[{{5}}])"
COORDINATES = range(5, 10)  # coordinates of a TMA copy, innermost axis first

HOPPER = {
    "memory.fence.async": "fence_async()",
    "matrix.multiply_group.m64n256k64.bf16": MULTIPLY_GROUP.format(kind="Bf16Group"),
    "matrix.multiply_group.m64n256k64.f16": MULTIPLY_GROUP.format(kind="F16Group"),
    "matrix.multiply_group.wait": "settle_groups<{0}>()",
    "barrier.begin": "barrier_begin(&{0}[{1}], {2})",
    "barrier.ready": "barrier_ready()",
    "barrier.wait": "barrier_wait(&{0}[{1}], {2})",
    "barrier.expect": "barrier_expect(&{0}[{1}], {2})",
    "barrier.done": "barrier_done(&{0}[{1}])",
    **{
        f"copy.box.{rank}": (
            "copy_box(&{1}[{2}], &{0}, &{3}[{4}], "
            f"{', '.join(f'{{{n}}}' for n in COORDINATES[:rank])})"
        )
        for rank in range(2, 6)
    },
    "registers.more": "more_registers<{0}>()",
    "registers.fewer": "fewer_registers<{0}>()",
}
"""Instructions of sm_90a. They have not yet run on any GPU, so schedules use them only with `--arch
sm_90a+wgmma`.
"""

FUNCTIONS = {
    "copy_async(": "copies.cuh",
    "multiply_warp<": "tensor_cores.cuh",
    "multiply_group<": "warpgroups.cuh",
    "copy_box(": "copy_engine.cuh",
    "warp_barrier(": "order.cuh",
    "memory_fence(": "order.cuh",
}
"""Each function, and the file that defines it."""


def functions_called(text: str) -> str:
    """The template functions that a text calls."""
    folder = files("xlac_cuda") / "templates"
    called = dict.fromkeys(name for call, name in FUNCTIONS.items() if call in text)
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in called)
