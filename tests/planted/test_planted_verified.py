"""Faults planted in every part of the compiler are found by `xlac verify`, with the right cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest
from planting import PRODUCT, Change, spoil

import xlac
from xlac.ops import OPS, build
from xlac.ops.scalar.arithmetic import Max
from xlac.ops.scalar.native import Abs, Sigmoid
from xlac.passes import simplify
from xlac.passes.rewrite.pattern import exp, operation, x, y
from xlac_c import CBackend
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.ctext import C99
from xlac_sdk.kernel_ir import build as kernels
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, For, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.kernel_ir.rewrite import KernelRewriter

pytestmark = pytest.mark.usefixtures("own_cache")
SPEC = """xlac: 1
model: small
inputs: {a: "f32[6, 40]", b: "f32[6, 40]"}
graph:
  apart: a - b
  grown: exp(apart) * 1.5
  bent: tanh(grown) / (abs(b) + 2.0)
  most: max(bent, apart * 0.25)
  y: sum(most, axis=1)
outputs: [y, most]
"""
COMPOSITE = """xlac: 1
model: composite
inputs: {{a: "f32[6, 40]"}}
graph:
  made: {entry}
  y: exp(made * 0.125)
outputs: [y]
"""


@pytest.mark.parametrize("text", [SPEC, PRODUCT], ids=["small", "product"])
def test_nothing_planted_nothing_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "right.yaml").write_text(text, "utf-8")
    found = xlac.verify(tmp_path / "right.yaml")
    assert found.right, found.text()


# ---- passes --------------------------------------------------------------------------------------

absolute, sigmoid, largest = map(operation, (Abs, Sigmoid, Max))
RULES = {
    "sub": x - y >> y + x,
    "sub of itself": x - y >> x * y,
    "exp": exp(x) >> sigmoid(x),
    "abs": absolute(x) >> sigmoid(x),
    "div": x / y >> x * y,
    "max": largest(x, y) >> x + y,
    "max of one": largest(x, y) >> x,
    "mul": x * y >> x - y,
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", RULES)
def test_wrong_rules(name: str, cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RULES[name].on({DType.F32})
    monkeypatch.setattr(simplify, "RULES", (rule, *simplify.RULES))
    said = cause(SPEC)
    assert "a pass: rewrite" in said and "simplify" in said and "planted.yaml" in said


EXPANSIONS = {
    "softmax": "{op: softmax, in: a}",
    "softsign": "softsign(a)",
    "selu": "selu(a)",
    "celu": "celu(a)",
    "leaky_relu": "leaky_relu(a)",
    "hardsigmoid": "hardsigmoid(a)",
    "relu": "relu(a)",
    "log_softmax": "{op: log_softmax, in: a}",
    "softplus": "softplus(a)",
    "elu": "elu(a)",
    "hardswish": "hardswish(a)",
    "mean": "mean(a, axis=1, keepdims=true)",
    "relu6": "relu6(a * 9.0)",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", EXPANSIONS)
def test_wrong_expansions(
    name: str, cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of composites with a meaning of their own in NumPy."""
    op = OPS[name]
    true = op.expand  # type: ignore[attr-defined]
    monkeypatch.setattr(op, "expand", lambda self, *n: build.mul(true(self, *n), 1.001))
    said = cause(COMPOSITE.format(entry=EXPANSIONS[name]))
    assert "a pass: rewrite" in said and f"expansion of {name}" in said


# ---- kernels -------------------------------------------------------------------------------------


def replaced(was: P, now: Callable[[Apply], Expr]) -> Change:
    """Kernels with another expression for each use of a primitive on floats."""

    def visit(node: Expr) -> Expr:
        floats = isinstance(node, Apply) and node.primitive is was and node.dtype.is_float
        return now(node) if floats else node  # type: ignore[arg-type]

    return lambda kernel: replace(kernel, body=KernelRewriter(visit).block(kernel.body))


def instead(primitive: P) -> Callable[[Apply], Expr]:
    return lambda node: replace(node, primitive=primitive)


def off(share: float) -> Callable[[Apply], Expr]:
    """The same, but for a part of it."""
    return lambda node: kernels.apply(P.MUL, node, Const(1.0 + share, node.dtype, node.lanes))


PRIMITIVES = {
    "exp": replaced(P.EXP, instead(P.TANH)),
    "tanh": replaced(P.TANH, instead(P.EXP)),
    "add": replaced(P.ADD, instead(P.SUB)),
    "sub": replaced(P.SUB, instead(P.ADD)),
    "mul": replaced(P.MUL, instead(P.ADD)),
    "div": replaced(P.DIV, instead(P.MUL)),
    "max": replaced(P.MAX, instead(P.MIN)),
    "abs": replaced(P.ABS, instead(P.NEG)),
    "exp off by a hundred thousandth": replaced(P.EXP, off(1e-5)),
    "tanh off by a hundred thousandth": replaced(P.TANH, off(1e-5)),
    "div off by ten ulp": replaced(P.DIV, off(2e-6)),
    "max off by ten ulp": replaced(P.MAX, off(2e-6)),
    "sub off by ten ulp": replaced(P.SUB, off(2e-6)),
    "abs off by a tenth": replaced(P.ABS, off(0.1)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_wrong_primitives(
    name: str, cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, PRIMITIVES[name], lambda group: True)
    said = cause(SPEC)
    assert said.startswith("wrong kernel") and "planted.yaml" in said


def shortened(kernel: Kernel) -> Kernel:
    """The outermost loop leaves out its last iteration, as a wrong tail does."""
    first = kernel.body[0]
    assert isinstance(first, For)
    return replace(kernel, body=(replace(first, stop=kernels.sub(first.stop, first.step)),))


@pytest.mark.parametrize("text", [SPEC, PRODUCT], ids=["rows", "product"])
def test_wrong_schedules(
    text: str, cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, shortened, lambda group: True)
    assert cause(text).startswith("wrong kernel")


def test_a_wrong_fusion(cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, PRIMITIVES["exp"], lambda group: len(group.nodes) > 1)
    said = cause(SPEC)
    assert said.startswith("wrong kernel") and "it is how they are fused" in said


@pytest.mark.sampled(4)
@pytest.mark.skipif(which("cc") is None, reason="the c target needs a C compiler")
@pytest.mark.parametrize(
    ("primitive", "text"),
    [
        (P.SUB, "({1} - {0})"),
        (P.MUL, "({0} + {1})"),
        (P.DIV, "({1} / {0})"),
        (P.ADD, "({0} - {1})"),
        (P.ABS, "({0} * 1.5f)"),
    ],
    ids=["sub", "mul", "div", "add", "abs"],
)
def test_wrong_spellings(
    primitive: P, text: str, cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(C99, floats={**C99.floats, primitive: text})
    monkeypatch.setattr(CBackend, "dialect", wrong)
    assert "backend 'c' disagrees with the interpreter" in cause(SPEC, "c")
