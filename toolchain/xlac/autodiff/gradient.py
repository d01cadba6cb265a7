"""The entry points of differentiation: forward mode (tangents) and reverse mode (cotangents)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.autodiff.custom import check_forward_mode
from xlac.autodiff.forward import Forward
from xlac.autodiff.reverse import pull_back
from xlac.ir.graph import Node, zeros
from xlac.ops.walks import fresh


@dataclass(frozen=True)
class Linear:
    """The tangents of `values` as a linear function of `sources`, the tangents of what was
    differentiated by; None where a value does not depend on it.

    `values` compute the same as the nodes that were asked for, and share work with the tangents.
    """

    values: list[Node]
    tangents: list[Node | None]
    sources: list[Node]

    def transposed(self, cotangents: Sequence[Node | None]) -> list[Node]:
        """Reverse mode: the cotangents of the sources, given those of the values (None: zero).
        Raises NoDerivativeError.
        """
        pairs = [
            (tangent, ct)
            for tangent, ct in zip(self.tangents, cotangents, strict=True)
            if tangent is not None and ct is not None
        ]
        cotangents_of_sources = pull_back(
            [c for c, _ in pairs], [ct for _, ct in pairs], self.sources
        )
        return [
            f or zeros(s.type) for f, s in zip(cotangents_of_sources, self.sources, strict=True)
        ]


def linearize(values: Sequence[Node], wrt: Sequence[Node]) -> Linear:
    """The derivative of `values` with respect to nodes `wrt` of float types, with fresh parameters
    as tangents. Raises NoDerivativeError.
    """
    return _pushed(values, wrt, fresh([node.type for node in wrt], "t"))


def push_forward(values: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node]) -> Linear:
    """Forward mode: the tangents of `values`, given those of `wrt`, of the same types. Raises
    NoDerivativeError, also for a custom gradient that is not linear, which reverse mode accepts.
    """
    linear = _pushed(values, wrt, tangents)
    check_forward_mode(tangent for tangent in linear.tangents if tangent is not None)
    return linear


def _pushed(values: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node]) -> Linear:
    forward = Forward(dict(zip(wrt, tangents, strict=True)))
    value_tangents = forward.run(values)
    return Linear([forward.primal[v] for v in values], value_tangents, list(tangents))
