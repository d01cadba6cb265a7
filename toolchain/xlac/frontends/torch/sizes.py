"""Converts PyTorch's symbolic sizes to xlac's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, PythonMod
from torch.utils._sympy.symbol import SymT, symbol_is_type

from xlac.frontends.torch.errors import NotExpressible
from xlac.ir.dims import UNBOUNDED, Dim, Symbol, symbol, symbols


class Sizes:
    """The symbols of one graph. `names` renames symbols, by PyTorch's name; `values` fixes some, or
    says which others they equal.
    """

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        values: Mapping[sympy.Symbol, int | sympy.Symbol] | None = None,
    ) -> None:
        self._names, self.values = (
            dict(names or {}),
            {s: sympy.sympify(v) for s, v in (values or {}).items()},
        )
        self._known: dict[sympy.Symbol, Dim] = {}

    @property
    def symbols(self) -> dict[str, Symbol]:
        """Every symbol met so far, by name."""
        return {s.name: s for dim in self._known.values() for s in symbols(dim)}

    def shape(self, sizes: Any) -> tuple[Dim, ...]:
        """Sizes of PyTorch, numbers or symbols, as a shape."""
        return tuple(map(self.dim, sizes))

    def dim(self, size: int | torch.SymInt) -> Dim:
        """A size; raises NotExpressible for one that is not a polynomial with quotients by
        numbers.
        """
        if isinstance(size, int):
            return size
        node = size.node
        return self._dim(self.fixed(node.expr), node.shape_env)

    def fixed(self, expr: Any) -> Any:
        """An expression of sizes with the fixed ones replaced."""
        return expr.xreplace(self.values) if self.values else expr

    def _dim(self, expr: Any, env: Any) -> Dim:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            if expr not in self._known:
                self._known[expr] = self._symbol(expr, env)
            return self._known[expr]
        if expr.is_Add or expr.is_Mul:
            combined, *rest = (self._dim(a, env) for a in expr.args)
            for part in rest:
                combined = combined + part if expr.is_Add else combined * part
            return combined
        if expr.is_Pow and expr.args[1].is_Integer and expr.args[1] > 0:
            base, combined = self._dim(expr.args[0], env), 1
            for _ in range(int(expr.args[1])):
                combined = base * combined
            return combined
        if isinstance(expr, FloorDiv | CleanDiv | Mod | PythonMod):
            left, right = (self._dim(a, env) for a in expr.args)
            try:
                if isinstance(expr, FloorDiv | CleanDiv):
                    return left // right  # type: ignore[operator]
                return left % right  # type: ignore[operator]
            except (ValueError, TypeError):
                pass
        raise NotExpressible(f"the size {expr} is not a sum of products of sizes")

    def _symbol(self, expr: sympy.Symbol, env: Any) -> Dim:
        if symbol_is_type(expr, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
            raise NotExpressible("the size of the result depends on the values of its operands")
        bounds = env.var_to_range.get(expr)
        low = _bound(bounds.lower, 0) if bounds is not None else 0
        high = _bound(bounds.upper, UNBOUNDED) if bounds is not None else UNBOUNDED
        hint = env.backed_var_to_val.get(expr)
        opt = int(hint) if hint is not None and hint.is_Integer else max(low, 1)
        return symbol(self._names.get(str(expr), str(expr)), low, high, min(max(opt, low), high))


def _bound(value: Any, otherwise: int) -> int:
    return min(int(value), UNBOUNDED) if value.is_Integer else otherwise
