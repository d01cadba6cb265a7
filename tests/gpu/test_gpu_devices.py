"""What a target is, and how many threads of it run in step, are its own facts."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_harness import LARGE, SMALL, agree, apply, param

from xlac.ops import build
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.target import Target

ROOT = Path(__file__).parents[2] / "toolchain" / "xlac"
ASKS = {"codegen/gpu", "codegen/lower.py", "cli/commands/backend.py"}  # the last one shows it


def test_a_device_follows_from_warps() -> None:
    assert Target("plain").device == "cpu"
    assert LARGE.device == "gpu"
    assert Target.from_json(LARGE.to_json()) == LARGE


@pytest.mark.parametrize(
    "facts", [{"device": "tpu"}, {"device": "gpu"}, {"device": "cpu", "warp": 16}]
)
def test_another_device_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="target 'odd': device is cpu or gpu, a gpu's warp is not"):
        Target("odd", **facts)


def test_a_copy_with_other_warps_says_its_device() -> None:
    with pytest.raises(ValueError, match="a cpu's is"):
        replace(Target("plain"), warp=32)


def test_what_is_no_gpu_lowering_asks_for_the_device() -> None:
    asking = []
    for path in ROOT.rglob("*.py"):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if ".warp" in text and not any(name.startswith(place) for place in ASKS):
            found = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute))
            asking += [f"{name}:{n.lineno}" for n in found if n.attr == "warp"]
    assert asking == []


@pytest.mark.parametrize("warp", [8, 16, 64])
@pytest.mark.sampled(4)
def test_warps_of_other_sizes(warp: int) -> None:
    """Values are exchanged inside of a warp, however wide it is."""
    target = replace(SMALL, warp=warp)
    x = param("x", (5, 130))
    program = agree(
        apply("softmax", x, axis=-1),
        apply("reduce", x, combine="add", axes=(0,)),
        apply("transpose", x, perm=(1, 0)),
        apply("cumulative", param("y", (1, 300)), combine="add", axis=1),
        target=target,
    )
    distances = {
        int(d) for k in program.kernels for d in re.findall(r"exchange\(.*?, (\d+)\)", show(k))
    }
    assert max(distances) == warp // 2
    agree(*build.sort([param("z", (3, 40))], axis=1), target=target)
    agree(
        apply("dot", x, param("w", (130, 9)), contract_lhs=(1,), contract_rhs=(0,)), target=target
    )
