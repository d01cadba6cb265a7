"""Operations that are defined by simpler ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import run_body
from xlac.ir.op import OPS, Array, Op
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType


class Composite(Op):
    """An operation defined by simpler ones. It stays one node until the target has had the chance
    to claim it whole.
    """

    @property
    def called(self) -> str:
        """What messages call the kernel that computes it whole."""
        return self.mnemonic

    @abstractmethod
    def expand(self, *inputs: Node) -> Node | tuple[Node, ...]:
        """The equivalent graph of simpler operations; a tuple for several results."""

    def expanded(self, *inputs: Node) -> tuple[Node, ...]:
        """The expansion, as one node for each result."""
        results = self.expand(*inputs)
        return results if isinstance(results, tuple) else (results,)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        """By expansion, unless a subclass overrides it with NumPy (it should, where that is
        short).
        """
        return evaluate_expansion(self, arrays)


def evaluate_expansion(op: Composite, arrays: Sequence[Array]) -> Array | tuple[Array, ...]:
    """Evaluates a composite by its expansion. Float64 arrays stand for any float type: the
    expansion is made for f64.
    """
    param: Any = OPS["param"]
    types = [Type(DType.of(array.dtype), array.shape) for array in arrays]
    params = tuple(
        Node.of(param(name=f"x{number}", type=type)) for number, type in enumerate(types)
    )
    outputs = {str(n): r for n, r in enumerate(op.expanded(*params))}
    results = run_body(Graph(op.mnemonic, params, outputs), arrays)
    return results[0] if len(results) == 1 else tuple(results)
