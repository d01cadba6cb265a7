"""`xlac bisect` names a wrong rule, a wrong expansion, a wrong kernel and a wrong backend, each
planted here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from xlac.codegen import kernel_dedup
from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac.ops import build
from xlac.ops.nn.probability import Softmax
from xlac.passes import simplify
from xlac.passes.rewrite.pattern import x, y
from xlac_reference import ReferenceBackend
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.kernel import Apply, Expr, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.target import Target

Bisected = Callable[[str], str]

SPEC = """xlac: 1
model: small
weights: {init: {seed: 0, tensors: {"*.weight": {scheme: normal, mean: 1.0, std: 0.1}}}}
inputs: {x: "f32[3, 4]"}
graph:
  apart: x - 1.5
  norm: {op: layer_norm, in: apart}
  y: exp(norm) * x
outputs: [y]
"""
SOFTMAX = """xlac: 1
model: small
inputs: {x: "f32[3, 4]"}
graph:
  norm: softmax(x - 1.5, axis=-1)
  y: exp(norm)
outputs: [y]
"""
SCALAR = """xlac: 1
model: small
inputs: {x: "f32[3, 4]", scale: "f32[]"}
graph:
  y: exp(x * scale)
outputs: [y]
"""
LOOP = """xlac: 1
model: looped
inputs: {x: "f32[5, 4]"}
graph:
  zero: zeros([4])
  run:
    scan: {x_t: x}
    carry: {h: zero}
    body: {h1: tanh(x_t) + h}
    next: {h: h1}
outputs: {y: run.h}
"""


@pytest.fixture
def bisected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bisected:
    """What the command says of a spec."""

    def run(text: str) -> str:
        from xlac.cli import status

        spec = tmp_path / "small.yaml"
        spec.write_text(text)
        assert status(["bisect", str(spec), "--target", "reference"]) == 1
        return capsys.readouterr().out

    return run


def spoiled(kernel: Kernel, was: Primitive = Primitive.EXP) -> Kernel:
    """The kernel with another function in the place of one."""

    def visit(node: Expr) -> Expr:
        return (
            replace(node, primitive=Primitive.SQRT)
            if isinstance(node, Apply) and node.primitive is was
            else node
        )

    return replace(kernel, body=KernelRewriter(visit).block(kernel.body))


def spoil_schedules(
    monkeypatch: pytest.MonkeyPatch, was: Primitive, chosen: Callable[[Group], bool]
) -> None:
    def wrong(group: Group, target: Target, name: str, decisions: Decisions) -> LoweredGroup:
        made = lower(group, target, name, decisions)
        if not chosen(group):
            return made
        return replace(
            made,
            launches=tuple(
                replace(step, kernel=spoiled(step.kernel, was)) for step in made.launches
            ),
        )

    monkeypatch.setattr(kernel_dedup, "lower", wrong)


def test_a_wrong_rule_is_named_with_its_line(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simplify, "RULES", (*simplify.RULES, (x - y >> y + x).on({DType.F32})))
    found = bisected(SPEC)
    assert ": (x - y) >> (y + x) [f32] at norm" in found and "small.yaml:7" in found


def test_a_wrong_expansion_is_named_with_its_line(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a composite with a meaning of its own; where the expansion is the meaning, there is
    nothing to compare it with.
    """
    true = Softmax.expand
    monkeypatch.setattr(
        Softmax, "expand", lambda self, *inputs: build.mul(true(self, *inputs), 2.0)
    )
    found = bisected(SOFTMAX)
    assert "expand: expansion of softmax at norm" in found and "small.yaml:5" in found


def test_a_wrong_fusion_is_named_with_its_nodes(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_schedules(monkeypatch, Primitive.EXP, lambda group: len(group.nodes) > 1)
    found = bisected(SPEC)
    assert found.startswith("wrong kernel") and "it is how they are fused" in found
    assert "small.yaml:8:6): exp mul" in found


def test_a_wrong_kernel_is_named_with_its_nodes(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_schedules(monkeypatch, Primitive.EXP, lambda group: True)
    found = bisected(SPEC)
    assert (
        found.startswith("wrong kernel")
        and "fused" not in found
        and "small.yaml:8:6): exp" in found
    )


def test_a_wrong_kernel_that_reads_a_scalar_is_named(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_schedules(monkeypatch, Primitive.EXP, lambda group: True)
    found = bisected(SCALAR)
    assert found.startswith("wrong kernel") and "small.yaml:5:6): exp" in found


def test_a_wrong_kernel_in_a_loop_is_named(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_schedules(monkeypatch, Primitive.TANH, lambda group: True)
    found = bisected(LOOP)
    assert found.startswith("wrong kernel") and "small.yaml:9" in found and ": tanh" in found


def test_a_wrong_backend_is_named_with_its_kernel(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(self: object, artifact: Path, program: Program, target: Target) -> Interpreter:
        return Interpreter(with_kernels(program, spoiled))

    monkeypatch.setattr(ReferenceBackend, "load", load)
    found = bisected(SPEC)
    assert (
        found.startswith("backend 'reference' disagrees with the interpreter on kernel")
        and "small.yaml:8:6): exp" in found
    )


def test_what_no_kernel_explains_is_said_to_be_between_them(
    bisected: Bisected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole program is wrong where it is loaded, each of its kernels is right."""

    def load(self: object, artifact: Path, program: Program, target: Target) -> Interpreter:
        return Interpreter(with_kernels(program, spoiled) if program.name == "small" else program)

    monkeypatch.setattr(ReferenceBackend, "load", load)
    assert "every kernel is right alone, and the interpreter runs the program rightly" in bisected(
        SPEC
    )
