"""What the compiler makes of shipped specs, whole: a change of any stage is seen in the text that
people read.

Targets are built by hand, for this machine's facts are no part of the text. Sizes are small, which
shows the same decisions. Kernels are kept for the scalar target: vectors only repeat them in wider
types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from goldens import Golden

from xlac.debug import decisions
from xlac.driver import Lowered, lower, specialized
from xlac.frontends.loader import load
from xlac.ir.text import show
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request, Target

SPECS = Path(__file__).parents[2] / "specs"
SCALAR = Target("scalar")
VECTOR = Target("vector", vector_bytes=64, vector_registers=32, masked=True, gathers=True, fma=True)

CASES: dict[str, dict[str, Any]] = {
    "softmax": {},
    "mul_add_reduce": {"params": {"n": 1000}},
    "bias_relu_softmax": {},
    "digits": {"dims": {"batch": 1}, "params": {"hidden": 128}},
    "layernorm_gelu": {},
    "lstm_3x60": {"dims": {"B": 1, "T": 5}, "params": {"depth": 2}},
    "loop_while": {},
    "branch_cond": {},
    "custom_op": {},
}


def lowered(spec: str, target: Target) -> Lowered:
    return lower(specialized(load(SPECS / f"{spec}.yaml", **CASES[spec])), target)


@pytest.mark.parametrize("spec", CASES)
def test_stages(spec: str, golden: Golden) -> None:
    for target in (SCALAR, VECTOR):
        made = lowered(spec, target)
        stages = {
            "graph": show(made.model.graph),
            "fused": decisions.fused(made),
            "memory": decisions.memory(made.program),
        }
        if target is SCALAR:
            stages["kernels"] = decisions.kernels(made.program)
        text = "\n".join(
            f"==> {stage} <==\n{content.rstrip()}\n" for stage, content in stages.items()
        )
        golden.check(f"specs/{spec}.{target.name}.txt", text)


@pytest.mark.parametrize("spec", ["mul_add_reduce", "softmax"])
def test_generated_c(spec: str, golden: Golden) -> None:
    """The whole program as C, each file with its name."""
    backend = find("c")
    target = backend.target(Request())
    sources = backend.emit(lowered(spec, target).program, target)
    golden.check(
        f"specs/{spec}.c.txt",
        "\n".join(f"==> {name} <==\n{text.rstrip()}\n" for name, text in sources.items()),
    )


def test_generated_llvm(golden: Golden) -> None:
    """For a named CPU the text is the same wherever it is made."""
    backend = find("cpu")
    target = backend.target(Request(cpu="x86-64-v3", triple="x86_64-unknown-linux-gnu"))
    sources = backend.emit(lowered("mul_add_reduce", target).program, target)
    golden.check(
        "specs/mul_add_reduce.ll.txt",
        "\n".join(f"==> {name} <==\n{text.rstrip()}\n" for name, text in sources.items()),
    )
