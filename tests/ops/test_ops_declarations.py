"""Every declaration agrees with itself: types, meaning, expansion, samples, symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from xlac.ir.composite import Composite, evaluate_expansion
from xlac.ir.dims import Sym, substitute, symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, Array, Op, Sample, ShapeError, arity, summary
from xlac.ir.types import Type
from xlac.ir.verify import verify
from xlac.ops import build, numeric
from xlac.ops.sampling import draw
from xlac_sdk.dtypes import DType

STRUCTURAL = set(
    (
        "param const pick cond while scan call custom_call bounded_while counted_scan "
        "custom_gradient "
        "custom_change custom_op"
    ).split()
)
NAMES = sorted(set(OPS) - STRUCTURAL)
COMPOSITES = sorted(n for n, c in OPS.items() if issubclass(c, Composite))


def tuple_of(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", NAMES)
def test_infer_agrees_with_evaluate(name: str) -> None:
    samples = OPS[name].samples()
    assert samples, f"{name} has no samples"
    for sample in samples:
        op = OPS[name](**sample.attributes)
        found = tuple_of(op.evaluate(*draw(sample)))
        wanted = tuple_of(op.infer(*sample.inputs))
        assert [Type(DType.of(a.dtype), a.shape) for a in found] == list(wanted), sample


@pytest.mark.parametrize("name", sorted(OPS))
def test_documentation(name: str) -> None:
    cls = OPS[name]
    assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("), (
        f"{name} says nothing about itself"
    )
    assert len(summary(cls)) < 140, summary(cls)
    least, most = arity(cls)
    assert most is None or least <= most
    assert all(f.name.isidentifier() for f in fields(cls))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(OPS))
def test_nothing_is_left_abstract(name: str) -> None:
    """Python does not see to it: `Op` is no ABC when the compiler runs."""
    cls = OPS[name]
    left = [n for n in dir(cls) if getattr(getattr(cls, n, None), "__isabstractmethod__", False)]
    assert not left, f"{name} does not say {', '.join(left)}"


def doubled(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Floats as f64, so that an expansion must agree closely."""
    return tuple(a.astype(np.float64) if numeric.is_float(a) else a for a in arrays)


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.sampled(4)
def test_expansion_agrees_with_evaluate(name: str) -> None:
    for sample in OPS[name].samples():
        op = OPS[name](**sample.attributes)
        assert isinstance(op, Composite)
        arrays = doubled(draw(sample))
        types = [Type(DType.of(a.dtype), a.shape) for a in arrays]
        with np.errstate(all="ignore"):
            direct = tuple_of(op.evaluate(*arrays))
            expanded = tuple_of(evaluate_expansion(op, arrays))
        assert [Type(DType.of(a.dtype), a.shape) for a in expanded] == list(
            tuple_of(op.infer(*types))
        ), sample
        for a, b in zip(expanded, direct, strict=True):
            tolerance = 1e-9 if a.dtype == np.float64 else 1e-5 if a.dtype == np.float32 else 1e-2
            if numeric.is_float(a):
                np.testing.assert_allclose(
                    a.astype(np.float64),
                    b.astype(np.float64),
                    tolerance,
                    tolerance,
                    err_msg=f"{sample}",
                )
            else:
                np.testing.assert_array_equal(a, b, err_msg=f"{sample}")


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.sampled(8)
def test_expansion_in_the_types_of_the_sample(name: str) -> None:
    """Halves too: the expansion has the inferred types, is well formed, and agrees with float64."""
    for sample in OPS[name].samples():
        op = OPS[name](**sample.attributes)
        assert isinstance(op, Composite)
        params = tuple(build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs))
        nodes = tuple_of(op.expand(*params))
        assert [n.type for n in nodes] == list(tuple_of(op.infer(*sample.inputs))), sample
        graph = Graph(name, params, {f"y{n}": node for n, node in enumerate(nodes)})
        verify(graph)
        same = [n for n in graph.nodes() if n.op == op]  # blocks of matrices are smaller
        extents = sum(sum(t.shape) for t in sample.inputs)
        assert all(sum(sum(x.shape) for x in n.inputs) < extents for n in same), (
            f"{name} expands to itself"
        )
        if "special" in sample.draw or name in ("prod", "cumprod"):
            continue
        inputs = {f"x{n}": a for n, a in enumerate(draw(sample))}
        with np.errstate(all="ignore"):
            narrow, wide = interpret(graph, inputs), interpret(graph, inputs, float64=True)
        for key, value in narrow.items():
            if not numeric.is_float(value):
                continue
            half = value.dtype.itemsize == 2
            bound = 2e-2 if value.dtype.name == "bfloat16" else 4e-3 if half else 1e-4
            np.testing.assert_allclose(
                value.astype(np.float64), wide[key], bound, bound, err_msg=f"{sample}"
            )


# ---- symbolic sizes ----------------------------------------------------------------------------


def symbolic(sample: Sample, size: int) -> tuple[Type, ...] | None:
    """The types with every extent of `size` as the symbol B, and in attributes left as it is."""
    if not any(size in t.shape for t in sample.inputs):
        return None
    B = symbol("B", 0, 10_000)
    return tuple(t.with_shape(tuple(B if d == size else d for d in t.shape)) for t in sample.inputs)


def filled(types: Any, values: Mapping[str, int]) -> tuple[Type, ...]:
    return tuple(
        t.with_shape(tuple(substitute(d, values) for d in t.shape)) for t in tuple_of(types)
    )


def allowed(op: Op, types: tuple[Type, ...]) -> Any:
    try:
        return op.infer(*types)
    except (ShapeError, TypeError, ValueError):
        return None  # this extent must be known


SYMBOLIC = [n for n in NAMES if n not in ("bitcast",)]


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes_agree_with_known_ones(name: str) -> None:
    """Inferring with a symbol and then giving it its value is inferring with the value."""
    for sample in OPS[name].samples():
        op = OPS[name](**sample.attributes)
        for size in {d for t in sample.inputs for d in t.shape if d not in (0, 1)}:
            types = symbolic(sample, size)
            found = None if types is None else allowed(op, types)
            if found is not None:
                assert filled(found, {"B": size}) == tuple_of(op.infer(*sample.inputs)), (
                    f"{sample} with B = {size}"
                )


B = symbol("B", 1, 64)
BATCHED: list[tuple[str, tuple[tuple[Any, ...], ...], dict[str, Any], tuple[Any, ...]]] = [
    ("relu", ((B, 3),), {}, (B, 3)),
    ("softmax", ((B, 10),), {}, (B, 10)),
    ("mean", ((B, 10),), {"axis": 0}, (10,)),
    ("matmul", ((B, 3, 4), (4, 5)), {}, (B, 3, 5)),
    ("linear", ((B, 4), (5, 4), (5,)), {"units": 5}, (B, 5)),
    (
        "conv2d",
        ((B, 3, 8, 8), (4, 3, 3, 3), (4,)),
        {"filters": 4, "kernel": 3, "stride": 2, "pad": "same_lower"},
        (B, 4, 4, 4),
    ),
    (
        "conv2d",
        ((B, 3, B * 2, 8), (4, 3, 3, 3), (4,)),
        {"filters": 4, "kernel": 3, "stride": 2, "pad": "same_upper"},
        (B, 4, B, 4),
    ),
    ("max_pool2d", ((B, 3, 8, 8),), {"kernel": 2}, (B, 3, 4, 4)),
    (
        "avg_pool2d",
        ((B, 3, B, 8),),
        {"kernel": 3, "stride": 1, "pad": 1, "count_include_pad": False},
        (B, 3, B, 8),
    ),
    ("layer_norm", ((B, B, 8), (8,), (8,)), {}, (B, B, 8)),
    ("batch_norm", ((B, 3, B), (3,), (3,), (3,), (3,)), {}, (B, 3, B)),
    ("attention", ((B, B, 24), (B, B, 24), (B, B, 24)), {"heads": 3, "causal": True}, (B, B, 24)),
    (
        "attention_with_past",
        ((B, 2, 1, 4), (B, 2, 1, 4), (B, 2, 1, 4), (B, 2, B, 4), (B, 2, B, 4)),
        {},
        (B, 2, 1, 4),
    ),
    ("flatten", ((B, 3, 4),), {"axis": 1}, (B, 12)),
    ("split", ((B * 2, 3),), {"parts": 2}, (B, 3)),
    ("cross_entropy", ((B, 10),), {}, ()),
    ("tile", ((B, 3),), {"repeats": (2, 1)}, (B * 2, 3)),
    ("flip", ((B, 3),), {}, (B, 3)),
    ("roll", ((B, 3),), {"shift": 1}, (B, 3)),
    ("tril", ((B, B),), {}, (B, B)),
    ("einsum", ((B, 3), (3, B)), {"equation": "ij,jk->ik"}, (B, B)),
    ("group_norm", ((B, 4, B), (4,), (4,)), {"groups": 2}, (B, 4, B)),
]


@pytest.mark.parametrize("case", BATCHED, ids=lambda c: c[0])
def test_expansions_with_symbolic_sizes(
    case: tuple[str, tuple[tuple[Any, ...], ...], dict[str, Any], tuple[Any, ...]],
) -> None:
    name, shapes, attributes, result = case
    params = tuple(build.param(f"x{n}", DType.F32, s) for n, s in enumerate(shapes))
    if name == "cross_entropy":
        params += (build.param("t", DType.I64, (B,)),)
    op = OPS[name](**attributes)
    assert isinstance(op, Composite)
    node = tuple_of(op.expand(*params))[0]
    assert node.shape == result
    assert tuple_of(op.infer(*(p.type for p in params)))[0] == node.type
    verify(Graph("symbolic", params, {"y": node}))


def test_dims_are_never_plain_when_symbolic() -> None:
    assert isinstance(B, Sym)
    assert Node.of(OPS["dim_size"](axis=0), build.param("x", DType.F32, (B,))).type == Type(
        DType.I32
    )
