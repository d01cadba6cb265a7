"""What each pass does, on the smallest graph that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from xlac.codegen import claims
from xlac.codegen.claims import is_kept, kind_taken
from xlac.fusion.group import Kind
from xlac.fusion.partition import partition
from xlac.ir.dims import symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.text import parse
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control
from xlac.ops.control.effect import Barrier
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar import arithmetic
from xlac.ops.tensor.leaf import Const, Param
from xlac.passes.canonicalize_dots import CanonicalizeDotsPass
from xlac.passes.capture import captured
from xlac.passes.channels_last import ChannelsLastPass
from xlac.passes.control.dce import DcePass
from xlac.passes.control.hoist_loop_invariants import HoistLoopInvariantsPass
from xlac.passes.control.inline import InlinePass
from xlac.passes.cse import CsePass
from xlac.passes.expand import ExpandPass
from xlac.passes.fold import FoldPass
from xlac.passes.merge_dots_sharing_rhs import MergeDotsSharingRhsPass
from xlac.passes.motion import MotionPass
from xlac.passes.pipeline import optimize
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac.passes.simplify import SimplifyPass
from xlac.passes.split_matmul_over_concat import SplitMatmulOverConcatPass
from xlac.passes.weights import Weights
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin
from xlac_sdk.target import Target

F32 = DType.F32


def graph(*outputs: Node) -> Graph:
    """A graph of outputs, whose inputs are the parameters that they need."""
    found = Graph("g", (), {f"y{n}": node for n, node in enumerate(outputs)})
    inputs = tuple(n for n in found.nodes() if isinstance(n.op, Param) and n.op.kind != "weight")
    return Graph("g", inputs, found.outputs)


def x(*shape: int, dtype: DType = F32, name: str = "x") -> Node:
    return build.param(name, dtype, shape)


def weight(name: str, *shape: int, dtype: DType = F32) -> Node:
    return build.param(name, dtype, shape, "weight")


def counts(g: Graph) -> Counter[str]:
    return Counter(node.op.mnemonic for node in g.nodes())


class Untouched(Mapping[str, Array]):
    """Weights that may not be read."""

    def __getitem__(self, name: str) -> Array:
        raise AssertionError(f"weight {name!r} was read")

    def __contains__(self, name: object) -> bool:
        return name in ("w", "s")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


# ---- capture -----------------------------------------------------------------------------------


def test_a_body_reads_a_weight_under_another_shape_for_itself() -> None:
    """So that schedules may pack it while compiling, as outside of a loop."""
    h, m = x(4, name="h"), x(4, 4, name="m")
    body = Graph("step", (h, m), {"h": build.dot(h, m, ((0,), (0,)))})
    loop = Node.of(control.Scan(body, 3, 1, 0), x(4), build.reshape(weight("w", 1, 16), (4, 4)))
    (found,) = [n for n in captured(graph(loop)).nodes() if isinstance(n.op, control.Scan)]
    assert len(found.inputs) == 1 and found.op.body is not None
    assert [n.op.name for n in found.op.body.nodes() if isinstance(n.op, Param)] == ["h", "w"]


# ---- expand ------------------------------------------------------------------------------------


def softmax_of(node: Node) -> Node:
    found = build.apply("softmax", node)
    assert isinstance(found, Node)
    return Node(found.op, found.inputs, found.types, Origin("probabilities"))


def test_expansion_keeps_the_origin() -> None:
    g = ExpandPass().run(graph(softmax_of(x(3, 4))), Trace(), PassContext())
    assert "softmax" not in counts(g)
    assert all(node.name == "probabilities" for node in g.nodes() if node.inputs)


def test_a_claimed_composite_keeps_its_name() -> None:
    g = graph(softmax_of(x(3, 4)))
    assert (
        ExpandPass().run(g, Trace(), PassContext(Target("t", claims=frozenset({"softmax"})))) is g
    )


def test_what_a_schedule_takes_whole_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_of_eight(node: Node, target: Target) -> bool:
        return target.vector_bytes > 0 and node.shape[-1] == 8

    monkeypatch.setitem(claims.TAKEN, "softmax", (Kind.SORT, rows_of_eight))
    vectors, scalars = Target("t", vector_bytes=64), Target("t")
    eight, nine = (graph(softmax_of(x(4, n))) for n in (8, 9))
    assert ExpandPass().run(eight, Trace(), PassContext(vectors, is_kept=claims.is_kept)) is eight
    assert [g.kind for g in partition(eight, vectors, kind_taken=kind_taken).groups] == [Kind.SORT]
    for g, target in ((nine, vectors), (eight, scalars)):
        assert not counts(
            ExpandPass().run(g, Trace(), PassContext(target, is_kept=claims.is_kept))
        )["softmax"]


def test_expansion_enters_bodies_and_composites_in_composites() -> None:
    body = build.graph("body", [Type(F32, (3,))], lambda h: build.apply("log_softmax", h, axis=0))
    scan = Node.of(control.Scan(body, 2, 1, 0), x(3))
    g = ExpandPass().run(graph(scan), Trace(), PassContext())
    inner = next(n for n in g.nodes() if n.op.mnemonic == "scan").op.bodies()[0]
    assert "log_softmax" not in counts(inner) and "softmax" not in counts(inner)


def test_what_kernels_can_compute_stays() -> None:
    tanh = build.apply("tanh", x(3))
    assert isinstance(tanh, Node)
    assert counts(ExpandPass().run(graph(tanh), Trace(), PassContext()))["tanh"] == 1


# ---- simplify ----------------------------------------------------------------------------------


def test_simplify_goes_through_broadcast_constants_and_bodies() -> None:
    body = build.graph("body", [Type(F32, (3,))], lambda h: build.mul(build.add(h, -0.0), 1.0))
    scan = Node.of(control.Scan(body, 2, 1, 0), x(3))
    g = SimplifyPass().run(graph(scan), Trace(), PassContext())
    inner = next(n for n in g.nodes() if n.op.mnemonic == "scan").op.bodies()[0]
    assert inner.outputs["y0"] is inner.inputs[0]


def test_rounding_rules_wait_for_fast_precision() -> None:
    g = graph(build.sub(x(3), x(3)), build.mul(x(3, name="z"), 0.0))
    one = x(3)
    g = graph(build.sub(one, one))
    assert SimplifyPass().run(g, Trace(), PassContext()) is g
    assert counts(SimplifyPass().run(g, Trace(), PassContext(precision="fast")))["sub"] == 0


def test_fuel_stops_rewriting() -> None:
    g = graph(build.mul(build.mul(x(3), 1.0), 1.0))
    whole = Trace()
    SimplifyPass().run(g, whole, PassContext())
    assert len(whole.fired) == 2
    assert SimplifyPass().run(g, Trace(fuel=0), PassContext()) is g
    assert counts(SimplifyPass().run(g, Trace(fuel=1), PassContext()))["mul"] == 1


# ---- cse, fold ---------------------------------------------------------------------------------


def test_cse_merges_equal_nodes_but_no_barriers() -> None:
    a = x(3)
    g = graph(build.add(build.exp(a), build.exp(a)))
    assert counts(CsePass().run(g, Trace(), PassContext()))["exp"] == 1
    held = graph(build.add(Node.of(Barrier(), a), Node.of(Barrier(), a)))
    assert CsePass().run(held, Trace(), PassContext()) is held


def test_constants_fold_when_small() -> None:
    a = build.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    g = FoldPass().run(graph(build.mul(x(2, 3), build.exp(a))), Trace(), PassContext())
    assert counts(g) == {"param": 1, "const": 1, "mul": 1}


def test_constants_do_not_grow() -> None:
    a, b = (
        build.constant(np.arange(300, dtype=np.float32)),
        build.constant(np.arange(300, dtype=np.float32) + 1),
    )
    outer = build.mul(build.spread(a, (300, 300), (0,)), build.spread(b, (300, 300), (1,)))
    g = graph(build.add(x(300, 300), outer))
    assert FoldPass().run(g, Trace(), PassContext()) is g


def test_loops_are_not_run_at_compile_time() -> None:
    types = [Type(DType.I32)]
    cond = build.graph("c", types, lambda i: build.compare(i, "lt", 10**6))
    body = build.graph("b", types, lambda i: build.add(i, 1))
    g = graph(Node.of(control.While(cond, body), build.constant(0)))
    assert FoldPass().run(g, Trace(), PassContext()) is g


def test_weight_expressions_become_derived_weights_unread() -> None:
    weights = Weights(Untouched())
    product = build.mul(weight("w", 4, 3), build.spread(weight("s", 4), (4, 3), (0,)))
    g = FoldPass().run(
        graph(build.dot(x(5, 3), product, ((1,), (1,)))), Trace(), PassContext(weights=weights)
    )
    assert counts(g) == {"param": 2, "dot": 1}
    assert "w~1" in weights


def test_halves_of_weights_stay_halves_until_something_is_computed() -> None:
    wide = build.compute(build.param("b", DType.BF16, (4,), "weight"))
    g = graph(build.add(x(4), wide))
    assert FoldPass().run(g, Trace(), PassContext(weights=Weights(Untouched()))) is g
    g = FoldPass().run(
        graph(build.add(x(4), build.exp(wide))), Trace(), PassContext(weights=Weights(Untouched()))
    )
    assert counts(g) == {"param": 2, "add": 1}


def test_derived_weights_are_computed_once_in_float64() -> None:
    third = np.full((1000,), 1 / 3, np.float32)
    weights = Weights({"w": third})
    total = weight("w", 1000)
    for _ in range(30):
        total = build.mul(total, np.float32(1.1))
    derived = weights.derive(total)
    assert isinstance(derived.op, Param)
    exact = (third.astype(np.float64) * np.float64(np.float32(1.1)) ** 30).astype(np.float32)
    assert np.array_equal(weights[derived.op.name], exact)
    assert weights[derived.op.name] is weights[derived.op.name]


# ---- motion, layout, contractions --------------------------------------------------------------


def test_transposes_cancel_through_elementwise() -> None:
    a = x(2, 3)
    g = MotionPass().run(
        graph(build.transpose(build.exp(build.add(build.transpose(a), 1.0)))),
        Trace(),
        PassContext(),
    )
    assert "transpose" not in counts(g)


def test_broadcasts_sink() -> None:
    g = MotionPass().run(
        graph(build.exp(build.spread(x(3), (100, 3), (1,)))), Trace(), PassContext()
    )
    assert next(n for n in g.nodes() if n.op.mnemonic == "exp").shape == (3,)


def test_slices_rise_only_where_nothing_else_reads() -> None:
    a = build.exp(x(10))
    alone = MotionPass().run(graph(build.cut(a, 0, 2, 5)), Trace(), PassContext())
    assert next(n for n in alone.nodes() if n.op.mnemonic == "exp").shape == (3,)
    shared = graph(build.cut(a, 0, 2, 5), a)
    assert MotionPass().run(shared, Trace(), PassContext()) is shared


def conv(
    image: Node, kernel: Node, layout_: tuple[str, str, str] = ("NCHW", "OIHW", "NCHW")
) -> Node:
    return Node.of(Conv(layout_, (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)), image, kernel)


def residual_network() -> Graph:
    """Two convolutions with batch norm, relu and a residual sum, in NCHW."""
    image = x(2, 4, 5, 6)
    value = image
    for layer in range(2):
        value = conv(value, weight(f"k{layer}", 4, 4, 3, 3))
        value = build.apply(
            "batch_norm", value, *(weight(f"{n}{layer}", 4) for n in ("g", "b", "m", "v"))
        )  # type: ignore[assignment]
        value = build.maximum(value if layer == 0 else build.add(value, image), 0.0)
    return graph(value)


def residual_weights() -> dict[str, Array]:
    numbers = np.random.default_rng(0)
    found: dict[str, Array] = {}
    for layer in range(2):
        found[f"k{layer}"] = numbers.normal(0, 0.2, (4, 4, 3, 3)).astype(np.float32)
        for name in "gbm":
            found[f"{name}{layer}"] = numbers.normal(0, 1, 4).astype(np.float32)
        found[f"v{layer}"] = numbers.uniform(0.5, 2, 4).astype(np.float32)
    return found


def test_batch_norm_and_layout_leave_convolutions_and_shifts() -> None:
    g, weights = residual_network(), Weights(residual_weights())
    after = optimize(g, Target("t"), weights=weights, verify_each=True, is_kept=is_kept)
    found = counts(after)
    assert found["conv"] == 2 and found["transpose"] == 2, "one at the input, one at the output"
    assert not found["mul"] + found["sub"] + found["div"] + found["rsqrt"]
    assert all(
        n.op.layout == ("NHWC", "HWIO", "NHWC") for n in after.nodes() if isinstance(n.op, Conv)
    )
    image = {"x": np.random.default_rng(1).normal(size=(2, 4, 5, 6)).astype(np.float32)}
    exact = interpret(g, image, residual_weights(), float64=True)["y0"]
    folded = interpret(after, image, weights)["y0"]
    plain = interpret(g, image, residual_weights())["y0"]
    error, before = np.abs(folded - exact).max(), np.abs(plain - exact).max()
    assert error < 2 * before + 1e-6, "folding costs no accuracy"


def test_batch_norm_of_halves_waits_for_fast_precision() -> None:
    def scaled() -> Graph:
        image, kernel = x(1, 2, 4, 4, dtype=DType.F16), weight("k", 2, 2, 3, 3, dtype=DType.F16)
        return graph(
            build.mul(
                conv(image, kernel),
                build.spread(weight("s", 2, dtype=DType.F16), (1, 2, 4, 4), (1,)),
            )
        )

    weights = {"k": np.ones((2, 2, 3, 3), np.float16), "s": np.ones(2, np.float16)}
    assert counts(optimize(scaled(), Target("t"), weights=weights, is_kept=is_kept))["mul"] == 1
    assert (
        counts(optimize(scaled(), Target("t"), weights=weights, precision="fast", is_kept=is_kept))[
            "mul"
        ]
        == 0
    )


def test_a_scale_that_is_shared_is_not_folded() -> None:
    product = build.dot(x(5, 3), weight("w", 4, 3), ((1,), (1,)))
    g = graph(build.mul(product, build.spread(weight("s", 4), (5, 4), (1,))), product)
    assert counts(CanonicalizeDotsPass().run(g, Trace(), PassContext()))["dot"] == 1


def test_dots_need_no_transposes_and_merge_axes() -> None:
    q, k = x(2, 4, 6, 5), x(2, 4, 7, 5, name="k")
    g = graph(build.dot(q, build.transpose(k, (0, 1, 3, 2)), ((3,), (2,)), ((0, 1), (0, 1))))
    after = CanonicalizeDotsPass().run(g, Trace(), PassContext())
    assert counts(after) == {"param": 2, "reshape": 3, "dot": 1}
    (dot,) = (n for n in after.nodes() if n.op.mnemonic == "dot")
    assert [i.shape for i in dot.inputs] == [(8, 6, 5), (8, 7, 5)]


def test_reshapes_cancel_between_dots() -> None:
    hidden = build.exp(build.dot(x(2, 3, 4), weight("a", 4, 5), ((2,), (0,))))
    g = CanonicalizeDotsPass().run(
        graph(build.dot(hidden, weight("b", 5, 6), ((2,), (0,)))), Trace(), PassContext()
    )
    assert counts(g)["reshape"] == 2, "one before the first, one after the last"


def test_convolutions_of_one_layout_are_left_alone() -> None:
    g = graph(conv(x(1, 4, 4, 2), weight("k", 3, 3, 2, 2), ("NHWC", "HWIO", "NHWC")))
    assert ChannelsLastPass().run(g, Trace(), PassContext()) is g


# ---- loops, dce --------------------------------------------------------------------------------


def recurrent(length: int = 6) -> Graph:
    """h = exp(min(h + x[t] @ w, 0)) with w made in the loop."""

    def step(h: Node, s: Node, w: Node) -> tuple[Node, Node]:
        shared = build.sqrt(build.mul(w, w))
        new = build.exp(build.minimum(build.add(h, build.dot(s, shared, ((0,), (0,)))), 0.0))
        return new, new

    body = build.graph("step", [Type(F32, (3,)), Type(F32, (4,)), Type(F32, (4, 3))], step)
    scan = Node.of(
        control.Scan(body, length, 1, 1), x(3, name="h"), x(length, 4), x(4, 3, name="w")
    )
    return graph(build.pick(scan, 1))


def test_scan_projects_all_its_inputs_at_once() -> None:
    g = recurrent()
    after = DcePass().run(
        HoistLoopInvariantsPass().run(g, Trace(), PassContext()), Trace(), PassContext()
    )
    scan = next(n for n in after.nodes() if n.op.mnemonic == "scan")
    (body,) = scan.op.bodies()
    assert "dot" not in counts(body) and "sqrt" not in counts(body)
    dot = next(n for n in after.nodes() if n.op.mnemonic == "dot")
    assert dot.shape == (6, 3)
    assert len(body.inputs) == 2, "the carry and its projected slice"
    given = {
        n: np.random.default_rng(3).normal(size=s).astype(np.float32)
        for n, s in (("h", 3), ("x", (6, 4)), ("w", (4, 3)))
    }
    assert np.allclose(interpret(g, given)["y0"], interpret(after, given)["y0"], rtol=1e-5)


def test_invariants_leave_a_while() -> None:
    types = [Type(DType.I32), Type(F32, (3,)), Type(F32, (3,))]
    cond = build.graph("c", types, lambda i, total, w: build.compare(i, "lt", 3))
    body = build.graph(
        "b", types, lambda i, total, w: (build.add(i, 1), build.add(total, build.exp(w)), w)
    )
    loop = Node.of(control.While(cond, body), build.constant(0), x(3), x(3, name="w"))
    g = graph(build.pick(loop, 1))
    after = DcePass().run(
        HoistLoopInvariantsPass().run(g, Trace(), PassContext()), Trace(), PassContext()
    )
    assert counts(after)["exp"] == 1
    inner = next(n for n in after.nodes() if n.op.mnemonic == "while").op.bodies()[1]
    assert "exp" not in counts(inner) and len(inner.inputs) == 3, "w itself is not carried any more"
    given = {"x": np.zeros(3, np.float32), "w": np.ones(3, np.float32)}
    assert np.allclose(interpret(after, given)["y0"], 3 * np.e)


def test_a_carry_that_never_changes_is_shared() -> None:
    body = build.graph("b", [Type(F32, (3,)), Type(F32, (3,))], lambda h, w: (build.add(h, w), w))
    scan = Node.of(control.Scan(body, 4, 2, 0), x(3), x(3, name="w"))
    after = HoistLoopInvariantsPass().run(
        graph(build.pick(scan, 0), build.pick(scan, 1)), Trace(), PassContext()
    )
    assert next(n for n in after.nodes() if isinstance(n.op, control.Scan)).op.carries == 1  # type: ignore[attr-defined]
    assert after.outputs["y1"].op.mnemonic == "param"


def test_dead_results_and_operands_go() -> None:
    branches = tuple(
        build.graph(
            f"b{k}", [Type(F32, (3,))] * 2, lambda a, b, k=k: (build.mul(a, float(k)), build.exp(b))
        )
        for k in (1, 2)
    )
    cond = Node.of(control.Cond(branches), x(dtype=DType.I32, name="i"), x(3), x(3, name="unused"))
    after = DcePass().run(graph(build.pick(cond, 0)), Trace(), PassContext())
    found = next(n for n in after.nodes() if isinstance(n.op, control.Cond))
    assert len(found.inputs) == 2 and len(found.results) == 1 and "pick" not in counts(after)


def test_dead_carries_go_and_those_that_feed_others_stay() -> None:
    types = [Type(DType.I32), Type(F32), Type(F32), Type(F32)]
    cond = build.graph("c", types, lambda i, a, b, dead: build.compare(i, "lt", 3))
    body = build.graph(
        "b",
        types,
        lambda i, a, b, dead: (
            build.add(i, 1),
            build.add(a, b),
            build.mul(b, 2.0),
            build.exp(dead),
        ),
    )
    first = [build.constant(v, F32) for v in (0.0, 1.0, 5.0)]
    loop = Node.of(control.While(cond, body), build.constant(0), *first)
    after = DcePass().run(graph(build.pick(loop, 1)), Trace(), PassContext())
    found = next(n for n in after.nodes() if isinstance(n.op, control.While))
    assert len(found.results) == 3
    assert interpret(after, {})["y0"] == 7


# ---- inline ------------------------------------------------------------------------------------


def test_calls_are_inlined_with_all_their_results() -> None:
    body = build.graph(
        "f", [Type(F32, (3,)), Type(F32, (3,))], lambda a, b: (build.add(a, b), build.exp(b))
    )
    call = Node.of(control.Call(body, "f"), x(3), x(3, name="z"))
    g = graph(build.pick(call, 0), build.pick(call, 1))
    after = InlinePass().run(g, Trace(), PassContext())
    assert counts(after) == {"param": 2, "add": 1, "exp": 1}


@pytest.mark.parametrize(("index", "expected"), [(0, 1.0), (1, 2.0), (7, 2.0), (-1, 2.0)])
def test_a_known_branch_is_taken(index: int, expected: float) -> None:
    branches = tuple(
        build.graph(f"b{k}", [Type(F32)], lambda a, k=k: build.add(a, float(k))) for k in (1, 2)
    )
    g = graph(Node.of(control.Cond(branches), build.constant(index), build.constant(0.0, F32)))
    after = InlinePass().run(g, Trace(), PassContext())
    assert "cond" not in counts(after) and interpret(after, {})["y0"] == expected


@pytest.mark.parametrize("length", [0, 1])
def test_scans_of_no_step_and_one(length: int) -> None:
    body = build.graph(
        "b",
        [Type(F32, (2,)), Type(F32, (2,)), Type(F32)],
        lambda h, s, k: (build.add(h, s), build.mul(s, k)),
    )
    scan = Node.of(control.Scan(body, length, 1, 1), x(2, name="h"), x(length, 2), x(name="k"))
    g = graph(build.pick(scan, 0), build.pick(scan, 1))
    after = InlinePass().run(g, Trace(), PassContext())
    assert "scan" not in counts(after)
    given = {
        "h": np.ones(2, np.float32),
        "x": np.full((length, 2), 3, np.float32),
        "k": np.array(2, np.float32),
    }
    before, now = interpret(g, given), interpret(after, {n: given[n] for n in given})
    assert all(np.array_equal(before[name], now[name]) for name in before)


# ---- everything that a pass makes can be written and read again --------------------------------


def test_a_graph_from_text() -> None:
    g = parse(
        """graph g {
          x = param() name="x" type=<f32[2, 3]> : f32[2, 3]
          %1 = transpose(x) perm=(1, 0) : f32[3, 2]
          %2 = transpose(%1) perm=(1, 0) : f32[2, 3]
          inputs x
          return y=%2
        }
        """
    )
    assert isinstance(SimplifyPass().run(g, Trace(), PassContext()).outputs["y"].op, Param)


def test_halves_keep_their_rounding() -> None:
    a = x(4, dtype=DType.F16)
    rounded = build.mul(build.mul(a, 3.0), 5.0)
    assert counts(SimplifyPass().run(graph(rounded), Trace(), PassContext()))["mul"] == 2
    assert (
        counts(SimplifyPass().run(graph(rounded), Trace(), PassContext(precision="fast")))["mul"]
        == 1
    )
    assert not isinstance(rounded.op, Const | arithmetic.Add)


@pytest.mark.parametrize("dims", [(0, 3), (3, 0)])
def test_empty_tensors_pass_through(dims: tuple[int, int]) -> None:
    g = graph(build.reduce(build.exp(build.transpose(x(*dims))), "add", 0))
    after = optimize(g, Target("t"), weights={}, verify_each=True, is_kept=is_kept)
    given = {"x": np.zeros(dims, np.float32)}
    assert np.array_equal(interpret(g, given)["y0"], interpret(after, given)["y0"])


def test_symbolic_sizes_pass_through() -> None:
    batch = symbol("batch", 1, 64, 8)
    a = build.param("x", F32, (batch, 4, 6))
    value = build.add(
        build.dot(a, weight("w", 5, 6), ((2,), (1,))),
        build.spread(weight("b", 5), (batch, 4, 5), (2,)),
    )
    value = build.transpose(
        softmax_of(build.mul(build.transpose(value, (0, 2, 1)), 1.0)), (0, 2, 1)
    )
    value = build.reshape(build.reduce(value, "max", 2), (batch * 4,))
    after = optimize(
        graph(build.cut(value, 0, 0, batch)),
        Target("t"),
        weights=Untouched(),
        verify_each=True,
        is_kept=is_kept,
    )
    assert after.outputs["y0"].shape == (batch,)


# ---- together ----------------------------------------------------------------------------------

WIDE = 100  # of a matrix that half the first cache of a target without facts does not hold


def row_times(value: Node, w: Node) -> Node:
    return build.dot(value, w, ((0,), (0,)))


def test_products_by_one_matrix_are_made_at_once() -> None:
    """A layer of an unrolled recurrence: what its inputs give needs no other step, what its own
    state gives does.
    """
    w, r = weight("w", WIDE, WIDE), weight("r", WIDE, WIDE)
    h, states = x(WIDE, name="h"), []
    for step in range(4):
        h = build.apply("tanh", build.add(row_times(x(WIDE, name=f"x{step}"), w), row_times(h, r)))
        states.append(h)
    g = graph(*states)
    found = MergeDotsSharingRhsPass().run(g, Trace(), PassContext())
    assert counts(g)["dot"] == 8 and counts(found)["dot"] == 5
    rng = np.random.default_rng(0)
    feeds = {
        p.op.name: rng.standard_normal(WIDE).astype(np.float32)
        for p in g.inputs
        if isinstance(p.op, Param)
    }
    weights = {name: (rng.standard_normal((WIDE, WIDE)) / 10).astype(np.float32) for name in "wr"}
    for y, wanted in interpret(g, feeds, weights).items():
        np.testing.assert_allclose(
            interpret(found, feeds, weights)[y], wanted, rtol=1e-5, atol=1e-6
        )


def test_products_of_levels_that_need_each_other_are_made_level_by_level() -> None:
    """Two values through two layers that share their weights; merging across layers would be a
    cycle.
    """
    w = weight("w", WIDE, WIDE)
    first = [row_times(x(WIDE, name=name), w) for name in "ab"]
    found = MergeDotsSharingRhsPass().run(
        graph(*(row_times(value, w) for value in first)), Trace(), PassContext()
    )
    assert counts(found)["dot"] == 2
    assert [n.inputs[0].shape for n in found.nodes() if isinstance(n.op, Dot)] == [
        (2, WIDE),
        (2, WIDE),
    ]


def test_products_whose_merging_would_be_a_cycle_stay() -> None:
    """What one product by v needs comes from w, what one by w needs from v: at most one of the
    pairs is merged.
    """
    v, w = weight("v", WIDE, WIDE), weight("w", WIDE, WIDE)
    one, other = row_times(x(WIDE, name="a"), v), row_times(x(WIDE, name="b"), w)
    found = MergeDotsSharingRhsPass().run(
        graph(row_times(one, w), row_times(other, v)), Trace(), PassContext()
    )
    assert counts(found)["dot"] == 3


def test_small_matrices_and_many_rows_stay() -> None:
    small, large = weight("s", 8, 8), weight("w", WIDE, WIDE)
    for g in (
        graph(*(row_times(x(8, name=n), small) for n in "ab")),
        graph(*(build.dot(x(9, WIDE, name=n), large, ((1,), (0,))) for n in "ab")),
        graph(row_times(x(WIDE), large)),
    ):
        assert MergeDotsSharingRhsPass().run(g, Trace(), PassContext()) is g


# ---- pieces ------------------------------------------------------------------------------------

HEADS, PAST, WIDTH = 2, 300, 64


def same(g: Graph, found: Graph) -> None:
    """Both compute the same."""
    rng = np.random.default_rng(0)
    feeds = {
        p.op.name: rng.standard_normal(p.shape).astype(np.float32)
        for p in g.inputs
        if isinstance(p.op, Param)
    }
    for y, wanted in interpret(g, feeds, {}).items():
        np.testing.assert_allclose(interpret(found, feeds, {})[y], wanted, rtol=1e-5, atol=1e-5)


def put_together(name: str) -> Node:
    """What was there, one more row and another three, a unit taken out."""
    parts = [x(1, HEADS, n, WIDTH, name=f"{name}{n}") for n in (PAST, 1, 3)]
    return build.reshape(build.concat(parts, 2), (HEADS, PAST + 4, WIDTH))


def test_products_of_few_rows_read_the_parts_of_a_concatenation() -> None:
    """Scores with keys, which are columns, and sums over values."""
    scores = build.dot(x(HEADS, 1, WIDTH), put_together("k"), ((2,), (2,)), ((0,), (0,)))
    sums = build.dot(x(HEADS, 1, PAST + 4, name="w"), put_together("v"), ((2,), (1,)), ((0,), (0,)))
    g = graph(scores, sums)
    found = SplitMatmulOverConcatPass().run(g, Trace(), PassContext())
    assert counts(found) == Counter(param=8, reshape=6, dot=6, concat=1, slice=3, add=2)
    same(g, found)


@pytest.mark.parametrize("rows", [1, 9])
def test_a_concatenation_that_is_needed_is_written(rows: int) -> None:
    """As a result, or because many rows read it."""
    keys = put_together("k")
    scores = build.dot(x(HEADS, rows, WIDTH), keys, ((2,), (2,)), ((0,), (0,)))
    g = graph(scores, keys) if rows == 1 else graph(scores)
    assert SplitMatmulOverConcatPass().run(g, Trace(), PassContext()) is g


def test_parts_of_halves_are_not_rounded_one_by_one() -> None:
    values = build.concat([x(n, WIDTH, dtype=DType.F16, name=f"v{n}") for n in (PAST, 1)], 0)
    g = graph(build.dot(x(PAST + 1, dtype=DType.F16), values, ((0,), (0,))))
    assert SplitMatmulOverConcatPass().run(g, Trace(), PassContext()) is g
