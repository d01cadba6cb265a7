"""Models of one operation, run with checks in the interpreter."""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, Array, Op
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac.ops.values import results
from xlac.passes.checks.insert import watched
from xlac.support.failures import WORDS, Check
from xlac_sdk.dtypes import DType

STRUCTURAL = {
    *(
        "param const pick cond while scan call custom_call bounded_while counted_scan "
        "custom_gradient custom_change custom_op"
    ).split()
}
NAMES = sorted(set(OPS) - STRUCTURAL)


def model_of(op: Op, *types: Type) -> Model:
    params = tuple(Node.of(Param(f"x{n}", t)) for n, t in enumerate(types))
    made = results(Node.of(op, *params))
    return Model(Graph("one", params, {f"y{n}": node for n, node in enumerate(made)}), {})


def run(
    model: Model, arrays: tuple[Array, ...], *kinds: str
) -> tuple[Check | None, tuple[int, ...]]:
    """What a checked model reports, once its results are seen to be those of the unchecked one."""
    given = {f"x{n}": a for n, a in enumerate(arrays)}
    with np.errstate(all="ignore"):
        plain = interpret(model.graph, given)
        made = watched(model, kinds)
        found = interpret(made.graph, given)
    for name, array in plain.items():
        assert found[name].tobytes() == array.tobytes(), name
    if made is model:
        return None, ()
    record = list(found.values())[-1]
    assert record.shape == (WORDS,)
    number = int(record[0])
    return (made.checks[number - 1] if number else None), tuple(map(int, record[1:]))


WHOLE = [d for d in DType if d.is_integer]
