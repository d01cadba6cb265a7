"""Operations of the user's own: their gradients through their meaning, and those that they declare,
beside jax.custom_vjp's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize, push_forward
from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.frontends.loader import load
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac.ops.control.custom_gradient import CustomChange, CustomGradient
from xlac.ops.control.effect import CustomCall
from xlac.ops.walks import closed
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError

MODEL = """\
xlac: 1
model: custom
ops:
  bent:
    params: {{k: 3.0}}
    inputs: {{x: "f64[*S]", w: "f64[*S]", n: "i32[]"}}
    outputs: {{y: "f64[*S]", z: "f64[*S]"}}
    expr:
      y: round(x * $k) * w
      z: exp(w) * f64(n)
    {gradient}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "f64[4, 3]", n: "i32[]"}}
graph:
  w: {{op: weight, type: "f64[3]"}}
  a, b: bent(x * sum(w), 0.0 * x + w, n)
outputs: {{y: a * a + b}}
"""
DECLARED = """\
gradient:
      both: d_y * w * $k + 0.1 * d_z
      d_x: both * cos(x)
      d_w: d_y * y + d_z * z * 2.0"""
TRAIN = """\
xlac: 1
model: trained
include: [m.yaml]
train: {loss: sum(a * a + b), optimizer: {sgd: {lr: 1.0}}}
"""


def written(folder: Path, gradient: str = DECLARED) -> Path:
    (folder / "m.yaml").write_text(MODEL.format(gradient=gradient))
    return folder / "m.yaml"


X, COUNT = np.random.default_rng(0).uniform(-1, 1, (4, 3)), np.asarray(2, np.int32)


def graph_of(folder: Path, gradient: str = DECLARED) -> tuple[list[Node], list[Node]]:
    """The inputs x, n and w of the model, and its result."""
    graph = load(written(folder, gradient)).graph
    weight = next(
        n
        for n in walk(graph.outputs.values())
        if n.op.mnemonic == "param" and n.op.kind == "weight"
    )  # type: ignore[attr-defined]
    return [*graph.inputs, weight], list(graph.outputs.values())


def run(inputs: list[Node], nodes: list[Node], *more: tuple[Node, Any]) -> list[Any]:
    params = [*inputs, *(p for p, _ in more)]
    outputs = {str(n): node for n, node in enumerate(nodes)}
    given = {"x": X, "n": COUNT} | {p.op.name: v for p, v in more}  # type: ignore[attr-defined]
    found = interpret(Graph("g", tuple(params), outputs), given, {"w": W})
    return [found[str(n)] for n in range(len(nodes))]


W = np.array([0.3, -0.2, 0.7])


def theirs(declared: bool) -> tuple[Any, Any]:
    """The gradient of the sum by w and x, by JAX."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def meaning(x: Any, w: Any) -> Any:
        return jnp.round(x * 3.0) * w, jnp.exp(w) * 2.0

    def back(kept: Any, cts: Any) -> Any:
        (x, w, y, z), (d_y, d_z) = kept, cts
        return (d_y * w * 3.0 + 0.1 * d_z) * jnp.cos(x), d_y * y + d_z * z * 2.0

    bent = jax.custom_vjp(meaning)
    bent.defvjp(lambda x, w: (meaning(x, w), (x, w, *meaning(x, w))), back)

    def loss(w: Any, x: Any) -> Any:
        a, b = (bent if declared else meaning)(x * jnp.sum(w), jnp.broadcast_to(w, (4, 3)))
        return jnp.sum(a * a + b)

    with jax.enable_x64(True):
        return tuple(map(np.asarray, jax.grad(loss, (0, 1))(W, X)))


@pytest.mark.parametrize("declared", [True, False])
def test_gradient_beside_jax(declared: bool, tmp_path: Path) -> None:
    """Through the meaning, and as declared."""
    inputs, (y,) = graph_of(tmp_path, DECLARED if declared else "")
    found = linearize([y], [inputs[2], inputs[0]]).transposed([build.like(1.0, y)])
    for one, other in zip(run(inputs, found), theirs(declared), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("target", ["reference", "c", "cpu"])
def test_a_step_goes_back_as_declared(target: str, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "t.yaml").write_text(TRAIN)
    trainer = xlac.trainer(tmp_path / "t.yaml", target=target)
    trainer.restore(trainer.state() | {"w": W})
    trainer.step(x=X, n=COUNT)
    np.testing.assert_allclose(W - trainer.state()["w"], theirs(True)[0], rtol=1e-12)


def test_forwards_is_the_transpose_of_what_is_declared(tmp_path: Path) -> None:
    inputs, (y,) = graph_of(tmp_path)
    t = build.param("t", W.dtype and y.type.dtype, (3,))
    change = push_forward([y], [inputs[2]], [t]).tangents[0]
    assert change is not None
    (forwards,) = run(inputs, [build.reduce(change, "add")], (t, np.array([1.0, -2.0, 0.5])))
    assert forwards == pytest.approx(float(theirs(True)[0] @ [1.0, -2.0, 0.5]), rel=1e-12)


def test_gradient_of_the_gradient(tmp_path: Path) -> None:
    """What is declared is differentiated again, as it is written."""
    inputs, (y,) = graph_of(tmp_path)
    (first,) = linearize([y], [inputs[2]]).transposed([build.like(1.0, y)])
    (second,) = linearize([build.reduce(first, "add")], [inputs[0]]).transposed(
        [build.constant(1.0, y.type.dtype)]
    )
    assert (
        np.isfinite(run(inputs, [second])[0]).all() and np.abs(run(inputs, [second])[0]).max() > 0.1
    )


NONLINEAR = """\
gradient:
      d_x: clip(d_y, min=-0.1, max=0.1) + 0.0 * d_z
      d_w: d_y"""
AFFINE = {
    "where": "where(x > 0.0, d_y, 5.0)",
    "where, the other way": "where(x > 0.0, x, d_y)",
    "constant": "cos(x)",
    "sum": "sum(d_y) + x",
    "concat": "slice(concat([d_y, x], axis=0), axes=[0], starts=[1], stops=[5])",
    "product": "d_y * d_y",
    "quotient": "x / d_y",
    "decided": "where(d_y > 0.0, d_y, 0.0)",
}


def test_a_gradient_that_is_not_linear_goes_backwards_only(tmp_path: Path) -> None:
    inputs, (y,) = graph_of(tmp_path, NONLINEAR)
    back = linearize([y], [inputs[0]]).transposed([build.like(1.0, y)])
    assert np.abs(run(inputs, back)[0]).max() <= 0.1 * abs(W.sum()) + 1e-12
    t = build.param("t", y.type.dtype, (4, 3))
    with pytest.raises(NoDerivativeError, match="declares a gradient that is not linear"):
        push_forward([y], [inputs[0]], [t])


@pytest.mark.parametrize("d_x", AFFINE.values(), ids=AFFINE)
def test_what_is_added_to_cotangents_is_not_linear(d_x: str, tmp_path: Path) -> None:
    """Its transpose would be that of the rest."""
    inputs, (y,) = graph_of(tmp_path, f"gradient: {{d_x: '{d_x}', d_w: d_y}}")
    t = build.param("t", y.type.dtype, (4, 3))
    linearize([y], [inputs[0]]).transposed([build.like(1.0, y)])
    with pytest.raises(NoDerivativeError, match="declares a gradient that is not linear"):
        push_forward([y], [inputs[0]], [t])


def test_a_gradient_that_is_not_linear_is_found_in_loops(tmp_path: Path) -> None:
    inputs, (y,) = graph_of(tmp_path, NONLINEAR)
    x, n, w = inputs
    step = closed("step", [x, n, w], [build.mul(y, 0.5)])
    looped = build.results(Node.of(Scan(step, 3, 1, 0), x, n, w))[0]
    back = linearize([looped], [x]).transposed([build.like(1.0, looped)])
    assert np.isfinite(run(inputs, back)[0]).all()
    t = build.param("t", y.type.dtype, (4, 3))
    with pytest.raises(NoDerivativeError, match="declares a gradient that is not linear"):
        push_forward([looped], [x], [t])


LINEAR = {
    "where": "where(x > 0.0, d_y, 0.0)",
    "where, typed zeros": "where(x > 0.0, zeros_like(x), d_y)",
    "quotient": "d_y / (2.0 + x)",
    "sum": "d_y + sum(d_y) * x - mean(d_z, axis=0)",
    "nothing": "zeros_like(x)",
}


@pytest.mark.parametrize("d_x", LINEAR.values(), ids=LINEAR)
def test_what_scales_and_adds_cotangents_goes_forwards(d_x: str, tmp_path: Path) -> None:
    """As its transpose."""
    inputs, (y,) = graph_of(tmp_path, f"gradient: {{d_x: '{d_x}', d_w: d_y}}")
    t = build.param("t", y.type.dtype, (4, 3))
    change = push_forward([y], [inputs[0]], [t]).tangents[0]
    (back,) = linearize([y], [inputs[0]]).transposed([build.like(1.0, y)])
    assert change is not None
    moved = np.random.default_rng(3).uniform(-1, 1, (4, 3))
    total, gradient = run(inputs, [build.reduce(change, "add"), back], (t, moved))
    assert total == pytest.approx(float(np.sum(gradient * moved)), rel=1e-12, abs=1e-12)


def test_many_examples(tmp_path: Path) -> None:
    """Along a leading axis of x, of which w is shared: its gradient is that of each, or of all."""
    inputs, (y,) = graph_of(tmp_path)
    wide = build.param("wide", y.type.dtype, (5, 4, 3))
    many = np.random.default_rng(1).uniform(-1, 1, (5, 4, 3))
    (all_y,) = Batch({inputs[0]: Along(wide, True)}, 5).run([y])
    (of_all,) = linearize([all_y.node], [inputs[2]]).transposed([build.like(1.0, all_y.node)])
    (one,) = linearize([y], [inputs[2]]).transposed([build.like(1.0, y)])
    (each,) = Batch({inputs[0]: Along(wide, True)}, 5).run([one])
    total, apart = run(inputs, [of_all, each.node], (wide, many))
    alone = []
    for x in many:
        given = {"x": x, "n": COUNT}
        alone.append(interpret(Graph("g", tuple(inputs), {"y": one}), given, {"w": W})["y"])
    np.testing.assert_allclose(apart, alone, rtol=1e-12)
    np.testing.assert_allclose(total, np.sum(alone, 0), rtol=1e-12)


def test_many_examples_that_share_a_result() -> None:
    """exp(w) is the same for all: its cotangent, and constants, are those of each example."""
    x, w, y, z, d_y, d_z = (build.param(n, DType.F64, (3,)) for n in "x w y z d_y d_z".split())
    body = closed("body", [x, w], [build.mul(x, w), build.exp(w)])
    d_w = build.add(build.mul(d_y, x), build.mul(d_z, z))
    for more in (d_w, build.like(1.0, w)):
        gradient = closed("gradient", [x, w, y, z, d_y, d_z], [build.mul(d_y, w), more])
        a, b = build.results(Node.of(CustomGradient(body, gradient, "shared"), x, w))
        wide = build.param("wide", DType.F64, (5, 3))
        (all_y,) = Batch({x: Along(wide, True)}, 5).run([build.add(build.mul(a, a), b)])
        (found,) = linearize([all_y.node], [w]).transposed([build.like(1.0, all_y.node)])
        assert found is not None
        many = np.random.default_rng(0).uniform(-1, 1, (5, 3))
        ours = interpret(Graph("g", (wide, w), {"g": found}), {"wide": many, "w": W}, {})["g"]
        wanted = (2 * many**2 * W).sum(0) + 5 * np.exp(W) if more is d_w else np.full(3, 5.0)
        np.testing.assert_allclose(ours, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("gradient", "told"),
    [
        ("gradient: {d_x: d_y}", "gradient does not say 'd_w' [XL1011]"),
        (
            "gradient: {d_x: d_y, d_w: sum(d_y)}",
            "'d_w' is of the type of 'w', f64[4, 3], and this is f64[] [XL2013]",
        ),
        ("gradient: {d_x: d_q, d_w: d_y}", "unknown value 'd_q'"),
    ],
)
def test_mistakes(gradient: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as error:
        load(written(tmp_path, gradient))
    assert "m.yaml:11:" in str(error.value) and told in str(error.value)


def test_a_checked_program_looks_into_it(tmp_path: Path) -> None:
    model = xlac.compile(written(tmp_path), "reference", checked="infinity")
    assert np.isfinite(model(X, COUNT)).all()
    large = np.full((4, 3), 1.7e308)  # the sum of w is 0.45: times k it is too large
    with pytest.raises(SourceError, match=r"m.yaml:9:1\d: error: .*infinity appears"):
        model(large, COUNT)


def test_a_call_that_nobody_knows_says_what_to_declare() -> None:
    x = build.param("x", build.constant(1.0).type.dtype, (3,))
    node = Node.of(CustomCall("mine", (), (x.type,)), x)
    with pytest.raises(NoDerivativeError, match="custom_call has no derivative") as told:
        linearize([node], [x])
    assert "declare a `gradient`" in told.value.hint


def test_nothing_of_a_change_is_left_in_a_gradient(tmp_path: Path) -> None:
    inputs, (y,) = graph_of(tmp_path)
    found = linearize([y], [inputs[2]]).transposed([build.like(1.0, y)])
    assert not any(isinstance(n.op, CustomChange) for n in walk(found))
