"""Products in ordinary arithmetic: every layout, size class, type and epilogue gives what the graph
means, in the interpreter.
"""

from __future__ import annotations

import numpy as np
import pytest
from contraction_harness import agree, compute, group, of_sample, param, values
from gpu_products import CORES, PLAIN, SIZES, TURNS, D, kernels, loads, matmul

from xlac.driver import lower
from xlac.fusion.group import Kind
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Target


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.sampled(8)
def test_sizes_and_layouts(turned: tuple[bool, bool]) -> None:
    for m, n, k in SIZES:
        agree(group(Kind.DOT, matmul(m, n, k, turned)), PLAIN)


def test_samples() -> None:
    for number, sample in enumerate(Dot.samples()):
        if max(sample.inputs[0].shape, default=0) > 100 or sample.inputs[0].dtype in (
            D.U8,
            D.U16,
            D.U64,
        ):
            continue
        kinds = [("input", "weight"), ("input",), ("weight", "input")][number % 3]
        agree(group(Kind.DOT, of_sample("dot", sample, kinds)), PLAIN)


def test_threads_read_vectors_where_memory_allows_it() -> None:
    """Sixteen bytes of each operand at once when every row begins at a multiple of them; else one
    element.
    """
    for k, most in ((64, 4), (66, 2), (67, 1)):
        (kernel,) = kernels(group(Kind.DOT, matmul(64, 67, k, (False, True))), PLAIN)
        lanes = {e.lanes for e in loads(kernel)}
        assert max(lanes) == most, (k, lanes)


@pytest.mark.parametrize("target", [PLAIN, CORES], ids=["plain", "cores"])
@pytest.mark.sampled(4)
def test_epilogues(target: Target) -> None:
    dtype = D.F32 if target is PLAIN else D.BF16
    for m, n, k in ((17, 24, 40), (16, 21, 32)):
        anchor = matmul(m, n, k, dtype=dtype)
        biased = build.add(anchor, param("bias", Type(dtype, (n,))))
        agree(group(Kind.DOT, anchor, build.maximum(biased, 0.0)), target)
        agree(
            group(
                Kind.DOT,
                anchor,
                build.add(
                    build.apply1("tanh", build.mul(biased, biased)),
                    param("skip", Type(dtype, (m, n))),
                ),
            ),
            target,
        )
        agree(group(Kind.DOT, anchor, build.transpose(biased, (1, 0)), biased), target)


def test_open_sizes() -> None:
    rows = symbol("rows", min=1, max=70, opt=40)
    for shape in ((rows, 24), (3, rows, 24), (24, rows)):
        left, right = param("a", Type(D.F32, shape)), param("b", Type(D.F32, (24, 20)))
        axis = shape.index(24)
        anchor = Node.of(Dot(contract_lhs=(axis,), contract_rhs=(0,)), left, right)
        graph = Graph("open", (left, right), {"y": build.maximum(anchor, 0.0)})
        program = lower(Model(graph, {}, {s.name: s for s in symbols(rows)}), PLAIN).program
        verify_program(program)
        for many in (1, 16, 37, 70):
            rng = np.random.default_rng(many)
            given = {
                "a": rng.normal(size=[many if n is rows else n for n in shape]),
                "b": rng.normal(size=(24, 20)),
            }
            feeds = {name: x.astype(np.float32) for name, x in given.items()}
            wanted = np.maximum(np.tensordot(given["a"], given["b"], ((axis,), (0,))), 0)
            got = np.empty(wanted.shape, np.float32)
            Interpreter(program).run(feeds, {"y": got})
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_special_values_pass_through() -> None:
    made = group(Kind.DOT, matmul(9, 21, 33))
    given = values(made)
    given["a"][2, 3], given["a"][5, 5], given["b"][7, 1] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            compute(made, PLAIN, given)[0], given["a"] @ given["b"], rtol=1e-5, atol=1e-5
        )
