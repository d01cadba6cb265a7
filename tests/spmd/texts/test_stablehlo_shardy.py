"""Shardy's annotations: the mesh of a program, and how its values are divided."""

from __future__ import annotations

import numpy as np
import pytest

from xlac.frontends.loader import load
from xlac.frontends.stablehlo import load as load_stablehlo
from xlac.frontends.stablehlo.shardy import divided
from xlac.ir.interpret import interpret
from xlac.ir.ranks import interpret_ranks
from xlac.model import Model
from xlac.spmd.mesh import Mesh, assembled, part_of
from xlac.spmd.model import mesh_of, of_rank
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

MESH = 'sdy.mesh @mesh = <["data"=2, "model"=2]>'
FIRST = '{sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}'
LAYER = """\
module @layer ATTRIBUTES {
  MESH
  func.func public @main(%arg0: tensor<8x32xf32> FIRST,
      %arg1: tensor<32x64xf32> SECOND, %arg2: tensor<64x32xf32>)
      -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
        : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %1 = CONSTRAINT
    %2 = stablehlo.tanh %1 : tensor<8x64xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [1] x [0]
        : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    return %3 : tensor<8x32xf32>
  }
}
"""
SECOND = '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}'
PRETTY = 'sdy.sharding_constraint %0 <@mesh, [{"data"}, {"model", ?}]> : tensor<8x64xf32>'
GENERIC = (
    '"sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}p1]>}> : '
    "(tensor<8x64xf32>) -> tensor<8x64xf32>"
)
EXPORTED = (
    "stablehlo.custom_call @Sharding(%0) {mhlo.frontend_attributes = {xla.sdy.sharding = "
    '"#sdy.sharding_per_value<[<@mesh, [{\\22data\\22}, {\\22model\\22}]>]>"}} : '
    "(tensor<8x64xf32>) -> tensor<8x64xf32>"
)
KEPT = (
    "attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "
    '"{mesh = #sdy.mesh<[\\22data\\22=2, \\22model\\22=2]>}"}}'
)


def layer(
    mesh: str = MESH,
    first: str = FIRST,
    second: str = SECOND,
    constraint: str = PRETTY,
    attributes: str = "",
) -> Model:
    """Two products, of which the first is divided by columns."""
    text = LAYER.replace("ATTRIBUTES", attributes).replace("MESH", mesh).replace("FIRST", first)
    text = text.replace("SECOND", second).replace("CONSTRAINT", constraint)
    return load(load_stablehlo(text))


def collectives(model: Model) -> list[str]:
    """What ranks exchange; results are compared with those of one process."""
    mesh = mesh_of(model.ranks, {})
    target = find("reference").target(Request())
    own, plan = of_rank(model, mesh, 0, target)
    rng = np.random.default_rng(0)
    arrays = {n.name: rng.standard_normal(n.shape).astype(np.float32) for n in model.inputs}
    parts = {}
    for name, array in arrays.items():
        every = [part_of(array, mesh, rank, plan.inputs[name]) for rank in range(mesh.ranks)]
        parts[name] = np.stack(every).reshape(*mesh.sizes.values(), *every[0].shape)
    found = interpret_ranks(own.graph, mesh.axes, parts)["out0"]
    flat = dict(enumerate(found.reshape(mesh.ranks, *found.shape[len(mesh.axes) :])))
    whole = assembled(flat, mesh, plan.outputs["out0"], (8, 32))
    np.testing.assert_allclose(whole, interpret(model.graph, arrays)["out0"], rtol=1e-4, atol=1e-4)
    return [node.op.mnemonic for node in plan.reasons]


@pytest.mark.parametrize("constraint", [PRETTY, GENERIC, EXPORTED])
def test_a_layer_divided_as_its_text_says(constraint: str) -> None:
    """One sum, as in a layer that Megatron divides."""
    model = layer(constraint=constraint)
    assert model.ranks is not None
    assert model.ranks.mesh == {"data": 2, "model": 2}
    assert model.ranks.params["arg1"].axes == ((), ("model",))
    assert "arg2" not in model.ranks.params
    assert collectives(model) == ["all_reduce"]


def test_what_exported_programs_keep_in_attributes() -> None:
    given = '{mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{AXES}, {}]>"}}'
    first = given.replace("AXES", "\\22data\\22")
    model = layer(mesh="", first=first, second="", constraint=EXPORTED, attributes=KEPT)
    assert model.ranks is not None
    assert {n: s.axes for n, s in model.ranks.params.items()} == {"arg0": (("data",), ())}
    assert collectives(model) == ["all_reduce"]


@pytest.mark.parametrize(
    "second",
    [
        "{sdy.sharding = #sdy.sharding<@mesh, [{?}, {?}]>}",
        '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"model":(1)2}]>}',
        '{sdy.sharding = #sdy.sharding<@other, [{}, {"model"}]>}',
        '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"strange"}]>}',
        '{sdy.sharding = #sdy.sharding<@mesh, [{"model"}]>}',
        "{sdy.sharding = 3 : i32}",
    ],
)
def test_what_says_nothing_or_is_not_understood_is_left_out(second: str) -> None:
    model = layer(second=second)
    assert model.ranks is not None
    assert set(model.ranks.params) == {"arg0"}
    assert collectives(model) == ["all_reduce"]  # as the constraint is left


@pytest.mark.parametrize(
    "mesh",
    [
        'sdy.mesh @mesh = <["data"=1, "model"=1]>',
        MESH + '\n  sdy.mesh @two = <["other"=8]>',
        # as JAX writes it where a function is called on one device
        (
            "sdy.mesh @mesh = <[], device_ids=[0]> "
            "{stablehlo.mesh = {axes = [], device_ids = dense<0> : tensor<1xi64>}}"
        ),
        "",
    ],
)
def test_without_one_mesh_of_several_devices_nothing_is_said(mesh: str) -> None:
    model = layer(mesh=mesh)
    assert model.ranks is None
    assert all(node.op.mnemonic != "shard" for node in model.graph.nodes())


@pytest.mark.parametrize(
    "mesh",
    [
        "sdy.mesh @mesh = <[" + "a" * 200_000 + "]>",
        "sdy.mesh @mesh = <[" + " " * 200_000 + "]>",
        'sdy.mesh @mesh = <["data"=' + "9" * 5_000 + ', "model"=2]>',
        'sdy.mesh @mesh = <["data"=0, "model"=2]>',
    ],
)
def test_meshes_that_nobody_would_write_are_no_meshes(mesh: str) -> None:
    assert layer(mesh=mesh).ranks is None


def test_shardings_that_nobody_would_write_say_nothing() -> None:
    for text in ("@" * 100_000, "@mesh," + " " * 100_000, "@mesh, [" + "{}" * 50_000):
        assert divided(text, ("mesh", {"data": 2}), (8, 8)) is None


def test_the_sizes_of_the_mesh_may_be_others() -> None:
    """`--mesh` wins over the file."""
    model = layer()
    assert mesh_of(model.ranks, {"data": 4, "model": 1}) == Mesh((("data", 4), ("model", 1)))


def test_constraints_inside_of_loops_mean_nothing() -> None:
    text = """\
module {
  sdy.mesh @mesh = <["data"=2]>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
     cond {
      %c = stablehlo.constant dense<3> : tensor<i32>
      %l = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.add %i, %one : tensor<i32>
      %s = sdy.sharding_constraint %v <@mesh, [{"data"}]> : tensor<4xf32>
      %w = stablehlo.add %s, %s : tensor<4xf32>
      stablehlo.return %n, %w : tensor<i32>, tensor<4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
}
"""
    model = load(load_stablehlo(text))
    got = interpret(model.graph, {"x": np.arange(4, dtype=np.float32)})["out0"]
    np.testing.assert_array_equal(got, 8 * np.arange(4, dtype=np.float32))
