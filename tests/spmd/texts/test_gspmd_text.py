"""Shardings of GSPMD in StableHLO text: axes get names, and computations of `shard_map` are
manual ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from xlac.api import compile
from xlac.frontends.loader import load
from xlac.frontends.stablehlo import load as load_stablehlo
from xlac.frontends.stablehlo.ranks.gspmd import loops, tiled
from xlac.ir.ranks import interpret_ranks
from xlac.model import Model
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.collective.shard import Shard
from xlac.spmd.mesh import assembled, distributed
from xlac.spmd.model import mesh_of, of_rank
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

ROWS = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
ANNOTATED = """\
module @f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x8xf32> {mhlo.sharding = "FIRST"},
      %arg1: tensor<8x4xf32> {mhlo.sharding = "SECOND"}) -> (tensor<8x4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
        : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "", mhlo.sharding = "THIRD"}
        : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
"""
MAPPED = """\
module @g attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x8xf32>, %arg1: tensor<8x4xf32>)
      -> (tensor<8x4xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[2,2]<=[4]}"}
        : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"}
        : (tensor<8x8xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.custom_call @Sharding(%arg1) {mhlo.sharding =
        "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"}
        : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.custom_call @SPMDFullToShardShape(%2) {mhlo.sharding = "{manual}"}
        : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %4:2 = call @shmap_body(%1, %3)
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    %5 = stablehlo.custom_call @Sharding(%4#0) {mhlo.sharding = "{manual}"}
        : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {mhlo.sharding =
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<4x4xf32>) -> tensor<8x4xf32>
    %7 = stablehlo.custom_call @Sharding(%4#1) {mhlo.sharding = "{manual}"}
        : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %8 = stablehlo.custom_call @SPMDShardToFullShape(%7) {mhlo.sharding = "{devices=[2,2]<=[4]}"}
        : (tensor<4x4xf32>) -> tensor<8x8xf32>
    return %6, %8 : tensor<8x4xf32>, tensor<8x8xf32>
  }
  func.func private @shmap_body(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>)
      -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle =
        #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1, %arg0 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}
"""
RNG = np.random.default_rng(0)
X, W = (RNG.standard_normal(shape).astype(np.float32) for shape in ((8, 8), (8, 4)))


def annotated(first: str, second: str, third: str) -> Model:
    text = ANNOTATED.replace("FIRST", first).replace("SECOND", second).replace("THIRD", third)
    return load(load_stablehlo(text))


def by_ranks(model: Model) -> list[np.ndarray]:
    """What all ranks give together."""
    mesh = mesh_of(model.ranks, {})
    made = of_rank(model, mesh, 0, find("reference").target(Request()))[1]
    given = {"arg0": X, "arg1": W}
    parts = {name: distributed(a, mesh, made.inputs[name]) for name, a in given.items()}
    results = []
    for name, array in interpret_ranks(made.graph, mesh.axes, parts).items():
        own = array.reshape(mesh.ranks, *array.shape[len(mesh.axes) :])
        shape = tuple(n for n in model.graph.outputs[name].shape if isinstance(n, int))
        results.append(assembled(dict(enumerate(own)), mesh, made.outputs[name], shape))
    return results


def test_axes_are_named_from_the_outermost() -> None:
    columns = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
    model = annotated(ROWS, columns, "{devices=[1,4]<=[2,2]T(1,0)}")
    assert model.ranks is not None and model.ranks.mesh == {"d0": 2, "d1": 2}
    said = {name: given.axes for name, given in model.ranks.params.items()}
    assert said == {"arg0": (("d0",), ()), "arg1": ((), ("d1",))}
    (node,) = [n for n in model.graph.nodes() if isinstance(n.op, Shard)]
    assert node.op.axes == (None, ("d1", "d0"))  # type: ignore[attr-defined]
    np.testing.assert_allclose(by_ranks(model)[0], X @ W, 1e-4, 1e-5)
    np.testing.assert_allclose(compile(model, target="reference")(X, W), X @ W, 1e-4, 1e-5)


def test_there_are_no_more_axes_than_are_used() -> None:
    model = annotated("{devices=[4,1]<=[4]}", "{replicated}", "{devices=[4,1]0,1,2,3}")
    assert model.ranks is not None and model.ranks.mesh == {"d0": 4}
    assert {name: given.axes for name, given in model.ranks.params.items()} == {
        "arg0": (("d0",), ())
    }


def test_devices_that_fit_into_no_mesh_are_left_out() -> None:
    model = annotated("{devices=[4,1]0,1,3,2}", "{maximal device=0}", "{manual}")
    assert model.ranks is None or not model.ranks.params


def test_what_is_said_of_devices_is_read_as_loops() -> None:
    assert loops(np.array([0, 2, 4, 1, 3, 5])) == [(1, 2), (2, 3)]
    assert loops(np.array([0, 1, 3, 2])) is None
    assert loops(np.array([0])) == []
    assert tiled("{devices=[2,3]<=[3,2]T(1,0)}") == [[(1, 2)], [(2, 3)]]
    assert tiled("{devices=[2,1,4]<=[8] last_tile_dims={replicated}}") == [[(4, 2)], []]
    assert tiled("{devices=[4,2]<=[2,4]}") == [[(2, 4)], [(1, 2)]]
    for text in (
        "{devices=[3,2]<=[2,4]}",
        "{devices=[2,3]<=[2,3]T(1,0)}",
        "{devices=[0,2]<=[0]}",
        "{devices=[2]<=[2]T(1)}",
        "{devices=[2,1,2]<=[4] last_tile_dims={manual}}",
        "{devices=[4000000]<=[4000000]}",
        "{replicated}",
    ):
        assert tiled(text) is None


def test_a_call_between_custom_calls_is_a_manual_computation() -> None:
    model = load(load_stablehlo(MAPPED))
    (node,) = [n for n in model.graph.nodes() if isinstance(n.op, ManualComputation)]
    assert node.op.takes == ((("d0",), ("d1",)), (("d1",), ()))  # type: ignore[attr-defined]
    assert node.op.gives == ((("d0",), ()), (("d0",), ("d1",)))  # type: ignore[attr-defined]
    found = compile(model, target="reference")(X, W)
    for result, wanted in zip(found.values(), (X @ W, X), strict=True):
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-5)
    for result, wanted in zip(by_ranks(model), (X @ W, X), strict=True):
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-5)


def test_one_that_is_not_understood_is_refused() -> None:
    text = MAPPED.replace("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", "{replicated}")
    assert text != MAPPED
    with pytest.raises(SourceError, match=r"takes .* but is given"):
        load_stablehlo(text)
    some = MAPPED.replace(
        "{manual}", "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}"
    )
    with pytest.raises(SourceError, match="a computation of each device that is not understood"):
        load_stablehlo(some)
