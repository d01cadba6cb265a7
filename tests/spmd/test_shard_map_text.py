"""Manual computations in StableHLO text, as `jax.shard_map` is lowered and as it is exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xlac.api import compile
from xlac.frontends.stablehlo import load
from xlac.frontends.stablehlo.ranks.manual_scope import ManualScope
from xlac.ops.collective.manual import ManualComputation
from xlac_sdk.source import SourceError

MESH = 'sdy.mesh @mesh = <["data"=2, "model"=2]>'
X = np.arange(32, dtype=np.float32).reshape(4, 8)
LOWERED = """\
module @f {
  MESH
  func.func public @main(%arg0: tensor<4x8xf32>) -> (RESULT) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"data"}, {"model", ?}]>] OUT
        manual_axes={"data", "model"} (%arg1: tensor<2x4xf32>) {
      BODY
      sdy.return %y : LOCAL
    } : (tensor<4x8xf32>) -> RESULT
    return %0 : RESULT
  }
  MORE
}
"""
ADD = """({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %sum = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %sum : tensor<f32>
      }) : (tensor<2x4xf32>) -> tensor<2x4xf32>"""
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
SUM = f"""%y = "stablehlo.all_reduce"(%arg1) <{{{CHANNEL}, replica_groups = dense<GROUPS> : SHAPE,
      use_global_device_ids}}> {ADD}"""
PART, ROWS = "tensor<2x4xf32>", 'out_shardings=[<@mesh, [{"data"}, {}]>]'


def summed(groups: str, shape: str = "tensor<2x2xi64>") -> str:
    return SUM.replace("GROUPS", groups).replace("SHAPE", shape)


def text(
    body: str,
    result: str = "tensor<4x4xf32>",
    local: str = PART,
    out: str = ROWS,
    mesh: str = MESH,
    more: str = "",
) -> str:
    """A module of one computation."""
    made = LOWERED.replace("BODY", body).replace("RESULT", result).replace("LOCAL", local)
    return made.replace("OUT", out).replace("MESH", mesh).replace("MORE", more)


def given(source: str, x: np.ndarray = X) -> np.ndarray:
    """The result of a module, compiled."""
    return np.asarray(compile(load(source), target="reference")(x))


def refused(source: str) -> str:
    """Why a module is refused, with its code and place."""
    with pytest.raises(SourceError) as caught:
        load(source)
    (problem,) = caught.value.diagnostics
    assert problem.span is not None
    return f"{problem.code} {problem.span}: {problem.message}"


BLOCKS = X[:, :4] + X[:, 4:]


def test_ranks_compute_on_their_parts() -> None:
    found = given(text(summed("[[0, 1], [2, 3]]")))
    np.testing.assert_array_equal(found, BLOCKS)


def test_the_generic_form_is_the_same() -> None:
    generic = f"""\
"builtin.module"() <{{sym_name = "f"}}> ({{
  "sdy.mesh"() <{{mesh = #sdy.mesh<["data"=2, "model"=2]>, sym_name = "mesh"}}> : () -> ()
  "func.func"() <{{function_type = (tensor<4x8xf32>) -> tensor<4x4xf32>, sym_name = "main"}}> ({{
  ^bb0(%arg0: tensor<4x8xf32>):
    %0 = "sdy.manual_computation"(%arg0) <{{
        in_shardings = #sdy.sharding_per_value<[<@mesh, [{{"data"}}, {{"model"}}]>]>,
        manual_axes = #sdy<manual_axes{{"data", "model"}}>,
        out_shardings = #sdy.sharding_per_value<[<@mesh, [{{"data"}}, {{}}]>]>}}> ({{
    ^bb0(%arg1: tensor<2x4xf32>):
      {summed("[[0, 1], [2, 3]]")}
      "sdy.return"(%y) : (tensor<2x4xf32>) -> ()
    }}) : (tensor<4x8xf32>) -> tensor<4x4xf32>
    "func.return"(%0) : (tensor<4x4xf32>) -> ()
  }}) : () -> ()
}}) : () -> ()
"""
    np.testing.assert_array_equal(given(generic), BLOCKS)


EXPORTED = """\
module @f attributes {mhlo.frontend_attributes = {xla.sdy.meshes =
    "{mesh = #sdy.mesh<[\\22data\\22=2, \\22model\\22=2]>}"}} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%arg0) {mhlo.frontend_attributes = {
        xla.sdy.in_shardings =
            "#sdy.sharding_per_value<[<@mesh, [{\\22data\\22}, {\\22model\\22}]>]>",
        xla.sdy.manual_axes = "#sdy<manual_axes{\\22data\\22, \\22model\\22}>"}}
        : (tensor<4x8xf32>) -> tensor<2x4xf32>
    %1 = call @xla.sdy.inlinable_manual_computation_body(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %2 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%1) {mhlo.frontend_attributes = {
        xla.sdy.out_shardings = "#sdy.sharding_per_value<[<@mesh, [{\\22data\\22}, {}]>]>",
        xla.sdy.manual_axes = "#sdy<manual_axes{\\22data\\22, \\22model\\22}>"}}
        : (tensor<2x4xf32>) -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
  func.func private @xla.sdy.inlinable_manual_computation_body(%arg1: tensor<2x4xf32>)
      -> tensor<2x4xf32> {
    BODY
    return %y : tensor<2x4xf32>
  }
}
"""


def test_a_body_between_two_custom_calls_is_the_same() -> None:
    exported = EXPORTED.replace("BODY", summed("[[0, 1], [2, 3]]"))
    np.testing.assert_array_equal(given(exported), BLOCKS)
    nodes = [n for n in load(exported).graph.nodes() if isinstance(n.op, ManualComputation)]
    assert [n.op.takes for n in nodes] == [((("data",), ("model",)),)]  # type: ignore[attr-defined]


def test_a_body_without_operands_is_the_same() -> None:
    start, _, rest = EXPORTED.partition("    %0 = ")
    rest = rest.partition("-> tensor<2x4xf32>\n")[2]
    made = (start + rest).replace("body(%0) : (tensor<2x4xf32>)", "body() : ()")
    made = made.replace("body(%arg1: tensor<2x4xf32>)", "body()")
    body = """%p = stablehlo.partition_id : tensor<ui32>
    %q = stablehlo.convert %p : (tensor<ui32>) -> tensor<f32>
    %y = stablehlo.broadcast_in_dim %q, dims = [] : (tensor<f32>) -> tensor<2x4xf32>"""
    found = given(made.replace("BODY", body))
    assert found[:, 0].tolist() == [0, 0, 2, 2] and (found == found[:, :1]).all()


def test_a_function_of_the_body_is_called() -> None:
    more = f"func.func private @total(%arg1: {PART}) -> {PART} {{ {summed('[[0, 1], [2, 3]]')} "
    more += f"return %y : {PART} }}"
    call = f"%y = func.call @total(%arg1) : ({PART}) -> {PART}"
    np.testing.assert_array_equal(given(text(call, more=more)), BLOCKS)


@pytest.mark.parametrize("dtype", ["f32", "i1", "i32"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "or", "xor", "subtract"])
def test_what_a_region_computes_is_computed_in_the_order_of_ranks(name: str, dtype: str) -> None:
    if (dtype == "f32" and name in ("or", "xor")) or (dtype == "i1" and name == "subtract"):
        return
    body = summed("[[0, 2], [1, 3]]").replace("stablehlo.add", f"stablehlo.{name}")
    source = text(body, "tensor<2x8xf32>", PART, 'out_shardings=[<@mesh, [{}, {"model"}]>]')
    found = given(source.replace("f32", dtype), x := (X % 3).astype(_numpy(dtype)))
    with np.errstate(all="ignore"):
        if dtype == "i1":
            by_name = {"add": "logical_or", "multiply": "logical_and", "or": "logical_or"}
            by_name |= {"maximum": "logical_or", "minimum": "logical_and", "xor": "logical_xor"}
            wanted = getattr(np, by_name[name])(x[:2], x[2:])
        else:
            wanted = getattr(np, {"or": "bitwise_or", "xor": "bitwise_xor"}.get(name, name))(
                x[:2], x[2:]
            )
    np.testing.assert_array_equal(found, wanted)


def _numpy(dtype: str) -> type:
    return {"f32": np.float32, "i1": np.bool_, "i32": np.int32}[dtype]


@pytest.mark.parametrize("name", ["add", "maximum"])
def test_a_part_of_what_is_combined(name: str) -> None:
    body = f"""%y = "stablehlo.reduce_scatter"(%arg1) <{{{CHANNEL}, scatter_dimension = 1 : i64,
      replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}}> {ADD}"""
    body = body.replace("-> tensor<2x4xf32>", "-> tensor<2x2xf32>")
    body = body.replace("stablehlo.add", f"stablehlo.{name}")
    out = 'out_shardings=[<@mesh, [{"data"}, {"model"}]>]'
    found = given(text(body, "tensor<4x4xf32>", "tensor<2x2xf32>", out))
    np.testing.assert_array_equal(found, BLOCKS if name == "add" else X[:, 4:])


def test_the_first_of_each_group_sends_to_all() -> None:
    body = f"""%y = "stablehlo.collective_broadcast"(%arg1) <{{{CHANNEL},
      replica_groups = dense<[[1, 0], [3, 2]]> : tensor<2x2xi64>}}> : ({PART}) -> {PART}"""
    np.testing.assert_array_equal(given(text(body)), X[:, 4:])


def test_pairs_that_are_not_alike_in_all_groups_are_of_the_whole_mesh() -> None:
    body = f"""%y = "stablehlo.collective_permute"(%arg1) <{{{CHANNEL},
      source_target_pairs = dense<[[0, 3], [1, 0]]> : tensor<2x2xi64>}}> : ({PART}) -> {PART}"""
    out = 'out_shardings=[<@mesh, [{"data"}, {"model"}]>]'
    found = given(text(body, "tensor<4x8xf32>", PART, out))
    wanted = np.zeros_like(X)
    wanted[2:, 4:], wanted[:2, :4] = X[:2, :4], X[:2, 4:]
    np.testing.assert_array_equal(found, wanted)


def test_without_global_ids_a_group_has_all_partitions() -> None:
    body = summed("[[0]]", "tensor<1x1xi64>").replace(",\n      use_global_device_ids", "")
    found = given(text(body, "tensor<2x4xf32>", PART, "out_shardings=[<@mesh, [{}, {}]>]"))
    np.testing.assert_array_equal(found, BLOCKS[:2] + BLOCKS[2:])


def test_groups_that_are_not_those_of_axes_are_refused() -> None:
    problem = refused(text(summed("[[0, 3], [1, 2]]")))
    assert problem.startswith("XL7208") and "data=2,model=2" in problem and ":6:" in problem


def test_what_is_not_understood_is_refused_with_its_place() -> None:
    fine = summed("[[0, 1], [2, 3]]")
    for source, problem in (
        (text(fine, mesh=MESH.replace("]>", "], device_ids=[0, 2, 1, 3]>")), "not in their order"),
        (text(fine).replace('{"model", ?}', '{"model":(1)2}'), "a part of an axis"),
        (
            text(fine).replace('manual_axes={"data", "model"}', 'manual_axes={"x"}'),
            "'x' is no axis",
        ),
        (text(fine).replace('[{"data"}, {}]>]', '[{"data"}, {}]>, <@mesh, []>]'), "2 shardings"),
        (text(fine, "tensor<5x4xf32>"), "it is tensor<4x4xf32>"),
        (text(fine).replace("4x8", "4x6"), "takes (f32[2, 4]), but is given (f32[2, 3])"),
        (text(fine).replace("4x8", "5x8"), "no 2 equal parts"),
    ):
        found = refused(source)
        assert problem in found and "manual_computation" in found


def test_replicas_and_places_outside_are_refused() -> None:
    replicas = summed("[[0, 1]]", "tensor<1x2xi64>").replace("handle = 1,", "handle = 0,")
    assert "of replicas, and there is one" in refused(text(replicas))
    outside = f"""func.func @main(%arg1: {PART}) -> {PART} {{
      {summed("[[0, 1], [2, 3]]")}
      return %y : {PART}
    }}"""
    assert refused(outside).startswith("XL7208") and "where no mesh is" in refused(outside)


def test_sizes_that_no_axis_divides_may_be_open() -> None:
    body = f"""%sum = "stablehlo.all_reduce"(%arg1) <{{{CHANNEL}, use_global_device_ids,
      replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}}> {ADD.replace("2x4", "?x4")}
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %four = stablehlo.constant dense<4> : tensor<1xi32>
      %rows = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %shape = stablehlo.concatenate %rows, %four, dim = 0
          : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %ones = stablehlo.dynamic_broadcast_in_dim %one, %shape, dims = []
          : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
      %y = stablehlo.add %sum, %ones : tensor<?x4xf32>"""
    source = f"""module {{ {MESH}
  func.func public @main(%arg0: tensor<?x8xf32>) -> tensor<?x4xf32> {{
    %size = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
    %0 = sdy.manual_computation(%size, %arg0)
        in_shardings=[<@mesh, []>, <@mesh, [{{}}, {{"model"}}]>]
        out_shardings=[<@mesh, [{{}}, {{}}]>] manual_axes={{"data", "model"}}
        (%n: tensor<i32>, %arg1: tensor<?x4xf32>) {{
      {body}
      sdy.return %y : tensor<?x4xf32>
    }} : (tensor<i32>, tensor<?x8xf32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }} }}"""
    np.testing.assert_array_equal(given(source, X[:3]), BLOCKS[:3] + 1)
    divided = source.replace('[{}, {"model"}]', '[{"data"}, {"model"}]')
    assert "no fixed size to be divided" in refused(divided)


def test_a_file_tells_its_place(tmp_path: Path) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(text(summed("[[0, 3], [1, 2]]")))
    with pytest.raises(SourceError, match=r"f\.mlir:6:"):
        load(file)


def test_groups_are_axes_in_the_order_of_their_members() -> None:
    scope = ManualScope((("a", 2), ("b", 3), ("c", 2)), ("a", "b", "c"))
    numbers = scope.numbers
    for order, axes in (
        ((1, 0, 2), ("a", "c")),
        ((1, 2, 0), ("c", "a")),
        ((0, 2, 1), ("c", "b")),
        ((0, 1, 2), ("b", "c")),
    ):
        groups = numbers.transpose(order).reshape(numbers.shape[order[0]], -1)
        assert scope.group_axes(groups) == axes
        shuffled = groups[:, ::-1]
        assert scope.group_axes(shuffled) is None
        assert {*(scope.group_axes(shuffled, ordered=False) or ())} == {*axes}
    assert scope.group_axes(np.arange(12).reshape(12, 1)) == ()
    assert scope.group_axes(np.arange(12).reshape(4, 3)) is None
    assert scope.group_axes(np.array([[0, 1]])) is None
    inner = ManualScope(scope.mesh, ("b",), ("a",))
    assert inner.group_axes(numbers.reshape(6, 2)) is None
