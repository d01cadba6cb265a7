"""Random graphs whose values stay tame, so that what two ways of computing them give can be
compared.

`cases()` is a hypothesis strategy; `make(Random(seed))` gives one without hypothesis. Values are
bounded, functions are applied where they are smooth, and comparisons are made of values that are
exact (inputs and integers), so that a difference in the last bits stays one.
"""

from __future__ import annotations

from random import Random

from graph_elementwise import (
    binary,
    composite,
    convert,
    integer,
    logic,
    normalised,
    reduced,
    running,
    unary,
)
from graph_maker import Case, Maker, Step
from graph_products import contraction, convolution, looped, pooled
from graph_views import taken, views
from hypothesis import strategies as st

from xlac_sdk.dtypes import DType


def cases(nodes: int = 10) -> st.SearchStrategy[Case]:
    """Graphs of about so many steps; a step is one to a dozen nodes."""
    return st.randoms(use_true_random=False).map(lambda random: make(random, nodes))


def make(random: Random, nodes: int = 10, more: tuple[Step, ...] = ()) -> Case:
    """One random graph, of `more` kinds of steps than usual."""
    return Maker(random, (*STEPS, *more)).case(random.randint(1, nodes))


STEPS: tuple[Step, ...] = (
    *(unary, unary, unary, binary, binary, binary, integer, logic, convert),
    *(views, views, views, views, reduced, reduced, normalised, composite),
    *(contraction, contraction, convolution, pooled, running, taken, looped),
)
"""Each as often as it is drawn."""


def tolerance(dtype: DType) -> float:
    """How far two ways of computing a value may differ, in units of the largest value that may
    occur.
    """
    return {DType.F64: 1e-11, DType.F32: 2e-5, DType.F16: 3e-2, DType.BF16: 0.2}.get(dtype, 0.0)
