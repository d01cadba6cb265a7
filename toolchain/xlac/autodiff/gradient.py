"""Changes and gradients of nodes, the two ways in: forward mode and reverse mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.autodiff.custom import check_forwards
from xlac.autodiff.forward import Forward
from xlac.autodiff.reverse import pull_back
from xlac.ir.graph import Node, zeros
from xlac.ops.walks import fresh


@dataclass(frozen=True)
class Linear:
    """The change of `values` as a linear function of `sources`: None where a value does not change.

    `values` compute what the nodes computed that were asked for, sharing work with the changes.
    """

    values: list[Node]
    changes: list[Node | None]
    sources: list[Node]

    def transposed(self, cotangents: Sequence[Node | None]) -> list[Node]:
        """The cotangents of the sources, from those of the values (None: zero). Raises
        NoDerivativeError.
        """
        pairs = [
            (change, ct)
            for change, ct in zip(self.changes, cotangents, strict=True)
            if change is not None and ct is not None
        ]
        found = pull_back([c for c, _ in pairs], [ct for _, ct in pairs], self.sources)
        return [f or zeros(s.type) for f, s in zip(found, self.sources, strict=True)]


def linearize(values: Sequence[Node], wrt: Sequence[Node]) -> Linear:
    """How nodes change with others, of float types. Raises NoDerivativeError."""
    return _pushed(values, wrt, fresh([node.type for node in wrt], "t"))


def push_forward(values: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node]) -> Linear:
    """How nodes change when those of `wrt` change by `tangents`, of the same types, to be computed as
    it is. Raises NoDerivativeError.
    """
    found = _pushed(values, wrt, tangents)
    check_forwards(change for change in found.changes if change is not None)
    return found


def _pushed(values: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node]) -> Linear:
    forward = Forward(dict(zip(wrt, tangents, strict=True)))
    changes = forward.run(values)
    return Linear([forward.primal[v] for v in values], changes, list(tangents))
