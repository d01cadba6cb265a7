"""Whether two graphs are the same, whatever their nodes are called."""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.op import attributes
from xlac.ops.tensor.leaf import Param


def equal(a: Graph, b: Graph) -> None:
    """The same operations on the same values; inputs and outputs of the same names."""
    assert list(a.outputs) == list(b.outputs)
    _equal_graphs(a, b)
    assert [n.op.name for n in a.inputs if isinstance(n.op, Param)] == [
        n.op.name for n in b.inputs if isinstance(n.op, Param)
    ]


def _equal_graphs(a: Graph, b: Graph) -> None:
    pairs: dict[Node, Node] = dict(zip(a.inputs, b.inputs, strict=True))
    left, right = list(a.nodes()), list(b.nodes())
    assert [n.op.mnemonic for n in left] == [n.op.mnemonic for n in right]
    for one, other in zip(left, right, strict=True):
        assert [pairs[i] for i in one.inputs] == list(other.inputs), (
            f"{one.name}: {one.op.mnemonic}"
        )
        assert one.types == other.types
        assert pairs.setdefault(one, other) is other
        if isinstance(one.op, Param):
            assert isinstance(other.op, Param) and one.op.kind == other.op.kind
            assert one.op.kind == "input" or one.op.name == other.op.name
            continue
        mine, theirs = attributes(one.op), attributes(other.op)
        for name, value in mine.items():
            if isinstance(value, np.ndarray):
                assert (
                    value.dtype == theirs[name].dtype and value.tobytes() == theirs[name].tobytes()
                )
            elif not one.op.bodies():
                assert value == theirs[name], (one.name, one.op.mnemonic, name)
        for inner, again in zip(one.op.bodies(), other.op.bodies(), strict=True):
            _equal_graphs(inner, again)
