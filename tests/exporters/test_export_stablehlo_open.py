"""Exported modules with open sizes: JAX's refinement with known sizes gives what ours give, and our
importer reads the same names, sizes and bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from shipped import MODELS
from stablehlo_runs import agree, flushed, inputs_of, run

from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.debug.conformance import cases, difference
from xlac.exporters.stablehlo import text
from xlac.frontends import stablehlo
from xlac.frontends.loader import load
from xlac.ir.dims import Dim, Sym, Symbol, symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control import effect
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.tensor.dynamic import Compact
from xlac.ops.tensor.dynamic_slice import DynSlice
from xlac.ops.tensor.leaf import param
from xlac.passes.specialize import substituted
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError, UnsupportedError

F32 = DType.F32


def opened(outputs: Mapping[str, Node], *inputs: Node) -> Model:
    graph = Graph("opened", inputs, dict(outputs))
    found = {s.name: s for n in inputs for size in n.shape for s in symbols(size)}
    return Model(graph, {}, found)


def said(dims: Mapping[str, Symbol]) -> dict[str, tuple[int, int, int]]:
    return {name: (s.min, s.max, s.multiple_of) for name, s in dims.items()}


def same_interface(model: Model, module: str) -> Model:
    """Our importer reads the interface that was written; returns what it reads."""
    found = stablehlo.load(module)
    assert [(param(n).name, n.type) for n in found.graph.inputs] == [
        (param(n).name, n.type) for n in model.graph.inputs
    ]
    assert {name: n.type for name, n in found.graph.outputs.items()} == {
        name: n.type for name, n in model.graph.outputs.items()
    }
    assert [*found.graph.outputs] == [*model.graph.outputs]
    assert said(found.dims) == said(model.dims)
    return found


def holds(model: Model, sizes: Mapping[str, int], given: Mapping[str, Array]) -> None:
    """What is exported gives what the model does, when XLA runs it and when we read it."""
    module = text(model)
    again = same_interface(model, module)
    with np.errstate(all="ignore"):
        wanted = interpret(substituted(model.graph, sizes), given, {})
        back = interpret(substituted(again.graph, sizes), given, again.weights)
    found = run(module, [given[param(n).name] for n in model.graph.inputs])
    for got, (name, want) in zip(found, wanted.items(), strict=True):
        assert not (wrong := difference(got, np.asarray(want))), f"{name}: {wrong}"
        assert not (wrong := difference(np.asarray(back[name]), np.asarray(want))), wrong


@pytest.mark.parametrize("name", ["digits", "loop_scan", "lstm_stream"])
def test_shipped_specs_with_open_sizes(name: str) -> None:
    (file,) = (f for f in MODELS if f.stem == name)
    model = load(file)
    module = text(model)
    same_interface(model, module)
    fixed = load(file, dims=dict.fromkeys(model.dims, 3))
    agree(fixed, inputs_of(fixed), 2e-5, module)


def test_every_operation_that_takes_and_makes_sizes() -> None:
    """Those with sizes as attributes, with sizes that are sums, products and quotients."""
    n, k = symbol("n", 2, 9), symbol("k", 1)
    x = build.param("x", F32, (n * 2 + 1, 3))
    y = build.param("y", F32, (n, k))
    at = build.param("at", DType.I32, ())
    mask = build.compare(y, "gt", 0.0)
    half: Dim = (n + k) // 2
    flat = build.reshape(y, (n * k,))
    outputs = {
        "flat": build.add(flat, build.cast(build.iota((n * k,), 0), F32)),
        "rows": build.cut(x, 0, 0, n),
        "odd": build.cut(x, 0, 1, n * 2, 2),
        "back": build.slice_(x, (n * 2, 2), (0, -1), (-1, -1)),
        "halves": build.full(2.0, (half, 2), F32),
        "wide": build.pad(y, build.constant(1.0), (n, 0), (0, half)),
        "gaps": build.pad(y, build.constant(1.0), (0, 1), (n, 0), (1, 2)),
        "sum": build.reduce(y, "add", 0),
        "mean": build.apply1("mean", y, axis=0),
        "both": build.concat([x, build.cut(x, 0, 0, n)], 0),
        "product": build.dot(y, build.transpose(y), ((1,), (0,))),
        "soft": build.apply1("softmax", y),
        "best": build.apply1("argmax", y, axis=1),
        "running": Node.of(Cumulative(0, "add"), y),
        "rests": Node.of(Cumulative(1, "max", exclusive=True, reverse=True), y),
        "slid": Node.of(DynSlice((n, 2)), x, at, at),
        "taken": build.take(y, build.reshape(at, (1,)), 0),
        "sorted": build.sort([y], 0)[0],
        "size": build.apply1("dim_size", y, axis=1),
    }
    found = Node.of(Compact(n * k), mask)
    outputs |= {"places": build.pick(found, 0), "count": build.pick(found, 1)}
    model = opened(outputs, x, y, at)
    rng = np.random.default_rng(0)
    for sizes in ({"n": 2, "k": 1}, {"n": 5, "k": 4}):
        given = {
            "x": rng.normal(size=(2 * sizes["n"] + 1, 3)).astype(np.float32),
            "y": rng.normal(size=(sizes["n"], sizes["k"])).astype(np.float32),
            "at": np.asarray(1, np.int32),
        }
        holds(model, sizes, given)


@pytest.mark.sampled(80)
@pytest.mark.parametrize("name", sorted(set(OPS) - {"custom_call"}))
def test_every_operation_along_an_open_axis(name: str) -> None:
    size = symbol("n", 1, 8)
    largest = sorted(cases(OPS[name]), key=lambda case: sum(a.size for a in case.inputs))[-1:]
    for case in map(flushed, largest):
        inner = [
            build.param(f"x{i}", DType.of(a.dtype), a.shape) for i, a in enumerate(case.inputs)
        ]
        if not inner:
            continue
        outer = [build.param(f"x{i}", p.type.dtype, (size, *p.shape)) for i, p in enumerate(inner)]
        given = {p: Along(w, True) for p, w in zip(inner, outer, strict=True)}
        node = Node.of(case.op, *inner)
        results = build.results(node) if len(node.results) > 1 else [node]
        made = Batch(given, size).run(results)
        model = opened({f"y{i}": each.node for i, each in enumerate(made)}, *outer)
        same_interface(model, text(model))
        arrays = {param(p).name: np.stack([a] * 3) for p, a in zip(inner, case.inputs, strict=True)}
        fixed = Model(substituted(model.graph, {"n": 3}), {})
        with np.errstate(all="ignore"):
            wanted = interpret(fixed.graph, arrays, {})
        found = run(text(model), [arrays[param(w).name] for w in outer])
        for got, want in zip(found, wanted.values(), strict=True):
            wrong = difference(got, np.asarray(want), case.bound)
            assert not wrong, f"{case.name}: {wrong}"


def test_bounds_are_asserted() -> None:
    n = symbol("n", 2, 8, multiple_of=2)
    x, y = build.param("x", F32, (n, 3)), build.param("y", F32, (n + 1,))
    model = opened({"y": build.reduce(x, "add", 1), "z": y}, x, y)
    module = text(model)
    assert said(stablehlo.load(module).dims) == {"n": (2, 8, 2)}
    for rows, more, reason in (
        (10, 11, "at most 8"),
        (0, 1, "at least 2"),
        (3, 4, "no multiple of 2"),
        (4, 6, r"axis 0 of y is 6, not n \+ 1 = 5"),
    ):
        with pytest.raises(Exception, match=reason):
            run(module, [np.ones((rows, 3), np.float32), np.ones(more, np.float32)])
    with pytest.raises(SourceError, match="size n is 10, and at most 8 is possible"):
        stablehlo.load(module, dims={"n": 10})
    (left,) = stablehlo.load(module, dims={"n": "1..6"}).dims.values()
    assert (left.min, left.max) == (2, 6)
    with pytest.raises(SourceError, match="no value of size n satisfies"):
        stablehlo.load(module, dims={"n": "9..20"})


def test_names_outlive_other_tools_of_mlir() -> None:
    """MLIR writes arguments as %arg0; names and sizes are attributes."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    n = symbol("batch", 1, 8)
    x, y = build.param("pixel values", F32, (n, 2)), build.param("class", F32, (n,))
    model = opened({"logits/out": build.reduce(x, "add", 1), "out7": y, "result": x}, x, y)
    context = mlir.make_ir_context()
    with context, ir.Location.unknown(context):
        parsed = ir.Module.parse(text(model))
        pretty, generic = str(parsed), parsed.operation.get_asm(print_generic_op_form=True)
        code = hlo.serialize_portable_artifact(parsed, hlo.get_minimum_version())
    assert "%arg0" in pretty
    for form in (pretty, generic, code):
        same_interface(model, form)


def test_a_size_in_an_attribute_is_a_size() -> None:
    head = "func.func @main(%a: tensor<?x3xf32> {{xlac.sizes = {0}}}) -> tensor<?x3xf32> {{\n"
    body = "  return %a : tensor<?x3xf32>\n}"
    for stated, reason in (
        ('["n"]', "a list of 2 strings"),
        ('["n +", "3"]', "not a size|expected more"),
        ('["n)", "3"]', "not a size"),
        ('["(n)//0", "3"]', "not a size"),
        ('["(n)//m", "3"]', "only numbers divide"),
        (f'["{"9" * 60}*n", "3"]', "too large"),
        (f'["{"*".join(["(a+b+c+d)"] * 20)}", "3"]', "too many terms"),
        (f'["{"(" * 150}", "3"]', "expected more"),
        (f'["{"n" * 201}", "3"]', "more than 200 characters"),
    ):
        with pytest.raises(SourceError, match=reason):
            stablehlo.load(head.format(stated) + body)
    model = stablehlo.load(head.format('["2*n + 1", "3"]') + body)
    assert isinstance(model.inputs[0].shape[0], Sym) and [*model.dims] == ["n"]
    assert str(model.inputs[0].shape[0]) == "2*n + 1"


def test_sizes_to_optimise_for_are_kept() -> None:
    n, m = symbol("n", 2, 64, opt=16, multiple_of=2), symbol("m", opt=100)
    k, x = symbol("k", 1, 8), build.param("x", F32, (n, m))
    y = build.param("y", F32, (m, k))
    module = text(opened({"z": build.apply1("matmul", x, y)}, x, y))
    assert module.count("xlac.opt") == 2 and "k=" not in module
    found = stablehlo.load(module).dims
    assert {name: s.opt for name, s in found.items()} == {"n": 16, "m": 100, "k": 8}
    assert (found["n"].min, found["n"].max, found["n"].multiple_of) == (2, 64, 2)
    bounded = stablehlo.load(module, dims={"n": "2..8", "m": "1..128"}).dims
    assert (bounded["n"].opt, bounded["m"].opt) == (8, 100)
    for wrong in ('["n"]', '["n=x"]', "3 : i64", "[4 : i64]"):
        with pytest.raises(SourceError, match="XL7203"):
            stablehlo.load(re.sub(r"xlac\.opt = \[[^]]*\]", f"xlac.opt = {wrong}", module))


def test_open_sizes_that_cannot_be_said_are_said_at_once() -> None:
    n = symbol("n", 1, 8)
    x, state = build.param("x", F32, (n * n,)), build.param("s", DType.U64, (2,))
    bits = build.results(Node.of(OPS["rng_bits"](shape=(n,)), state))  # type: ignore[call-arg]
    made = Node.of(effect.CustomCall("f", (), (Type(F32, (n * n,)),)), x)
    with pytest.raises(UnsupportedError) as caught:
        text(opened({"b": bits[1], "y": made}, x, state))
    listed = [str(d) for d in caught.value.diagnostics]
    assert len(listed) == 3 and all("XL7402" in line for line in listed)
    assert "no input has an axis of size n" in listed[0]
