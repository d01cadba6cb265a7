"""Cases of an operation's own samples, drawn and run through its schedule on several targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from loops_harness import MASKED, PLAIN, SCALAR, assert_close, run_scheduled
from numpy.typing import NDArray

from xlac.codegen.claims import kind_taken
from xlac.codegen.lower import lower
from xlac.fusion.partition import partition
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op, Sample
from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

Array = NDArray[Any]
Draw = Callable[[Type, int, np.random.Generator], Array]


def values(type_: Type, number: int, rng: np.random.Generator) -> Array:
    """Small numbers with many equal ones, and specials among floats."""
    shape, dtype = type_.shape, type_.dtype
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.5
    if dtype is DType.U64:
        return rng.integers(0, 2**64, shape, np.uint64)
    if dtype.is_integer:
        return rng.integers(-9 if dtype.is_signed else 0, 9, shape).astype(dtype.numpy)
    found = rng.integers(-6, 6, shape).astype(dtype.numpy)
    kind = rng.random(shape)
    special = [(0.05, np.nan), (0.1, np.inf), (0.15, -np.inf), (0.25, -0.0)]
    for limit, value in reversed(special):
        found = np.where(kind < limit, np.asarray(value, dtype.numpy), found)
    return np.asarray(found, dtype.numpy)


def check(
    op: Op,
    types: Sequence[Type],
    *,
    draw: Draw = values,
    targets: Sequence[Target] = (SCALAR, MASKED, PLAIN),
    rtol: float = 1e-5,
) -> None:
    """The kernels of one node, alone in a graph, compute what `evaluate` does."""
    rng = np.random.default_rng(1)
    params = tuple(Node.of(Param(f"x{k}", t, "input")) for k, t in enumerate(types))
    node = Node.of(op, *params)
    outputs = (
        (node,)
        if len(node.results) == 1
        else tuple(Node(Pick(index=k), (node,), t) for k, t in enumerate(node.results))
    )
    feeds = {p: draw(p.type, k, rng) for k, p in enumerate(params)}
    with np.errstate(all="ignore"):
        exact = op.evaluate(*feeds.values())
    wanted = dict(zip(outputs, exact if isinstance(exact, tuple) else (exact,), strict=True))
    graph = Graph("g", params, {f"o{k}": o for k, o in enumerate(outputs)})
    for target in targets:
        found: dict[Node, Array] = {}
        for group in partition(graph, target, kind_taken=kind_taken).groups:
            found |= run_scheduled(lower(group, target, "k"), group.outputs, feeds)
        for output in outputs:
            if found.get(output) is not None and output.type.size:
                assert_close(
                    found[output],
                    wanted[output],
                    output.type.dtype,
                    rtol,
                    f"{op} {types} on {target.name}",
                )


def check_sample(cls: type[Op], sample: Sample, **options: Any) -> None:
    check(cls(**sample.attributes), sample.inputs, **options)


def label(sample: Sample) -> str:
    given = " ".join(f"{k}={v}" for k, v in sample.attributes.items() if v is not None)
    return f"{', '.join(map(str, sample.inputs))} {given}"[:90]
