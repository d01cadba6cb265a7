"""Derivatives of traced functions: the function is traced with fresh parameters, the traced graph
is differentiated, and the arguments are then substituted for the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import Linear, linearize, push_forward
from xlac.frontends.gradients.change_nests import fitting
from xlac.frontends.gradients.variables import (
    Variables,
    alike,
    exact,
    in_type,
    is_float,
    outside,
    weak,
)
from xlac.frontends.pytree import flatten, unflatten
from xlac.frontends.traced_function import inlined
from xlac.frontends.tracing import Number, Tensor
from xlac.ir.graph import Node, zeros
from xlac.ops import build
from xlac.ops.walks import substituted
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError


@contextmanager
def derivatives(function: str) -> Iterator[None]:
    """Reports an operation without a derivative as a user error, at the operation's place in the
    function.
    """
    try:
        yield
    except NoDerivativeError as error:
        origin = error.node.origin
        diagnostic = Diagnostic(
            "XL2042",
            f"{function}() cannot be differentiated: {error}",
            origin.span if origin else None,
            error.hint or "xlac.stop_gradient(x) makes x a constant",
        )
        raise SourceError(diagnostic) from None


def split_aux(function: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """The differentiated value of a function and its auxiliary result. Raises SourceError if the
    result is not such a pair.
    """
    if not has_aux:
        return inlined(result), None
    if not isinstance(result, tuple) or len(result) != 2:
        problem = (
            f"{function}() must return a pair with has_aux=True: a value and an auxiliary result"
        )
        raise SourceError(Diagnostic("XL2040", problem, hint="return value, aux"))
    value, aux = result
    return inlined(value), inlined(aux)


def gradient(
    function: str, call: Callable[[list[Tensor]], Any], given: Sequence[Tensor], has_aux: bool
) -> tuple[Tensor, Any, list[Tensor]]:
    """The value of a function of float leaves, its auxiliary result, and the gradient with respect
    to each leaf. Raises SourceError.
    """
    variables = Variables(given)
    value, aux = split_aux(function, call(variables.tensors), has_aux)
    scalar = _scalar(function, value, has_aux)
    params = list(variables.params())
    with derivatives(function):
        linear = linearize(variables.cut([exact(scalar)]), params)
        one = build.constant(1.0, linear.values[0].type.dtype)
        gradients = linear.transposed([one])
    others: list[Tensor] = []
    tree = flatten(aux, others)
    values = variables.values()
    first, *rest = substituted([linear.values[0], *gradients], values)
    gradients_of_leaves = variables.gathered(dict(zip(params, rest, strict=True)))
    assert all(each is not None for each in gradients_of_leaves)
    return alike(first, scalar), unflatten(tree, outside(others, values)), gradients_of_leaves  # type: ignore[return-value]


def _scalar(function: str, value: Any, has_aux: bool) -> Tensor:
    if not isinstance(value, Tensor):
        given = f"a {type(value).__name__}"
        pair = isinstance(value, tuple) and len(value) == 2 and not has_aux
        hint = "has_aux=True if the second result is auxiliary" if pair else ""
        raise _no_scalar(function, given, hint or "return one scalar tensor")
    if not is_float(value):
        given = "an integer" if isinstance(value, Number) else f"{value.node.type}"
        raise _no_scalar(function, given, "only floats have gradients: cast it, astype('f32')")
    if not isinstance(value, Number) and value.shape:
        hint = "sum or mean it; xlac.vjp takes a cotangent for each element"
        raise _no_scalar(function, str(value.node.type), hint)
    return value


def _no_scalar(function: str, given: str, hint: str) -> SourceError:
    problem = f"{function}() returns {given}, and only a scalar float has a gradient"
    return SourceError(Diagnostic("XL2040", problem, hint=hint))


# ---- forward mode (jvp) and reverse mode (vjp) -------------------------------------------------


def pushed(
    function: str,
    call: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool,
) -> tuple[Any, Any, Any]:
    """The value of a function, its tangent, and its auxiliary result. Raises SourceError."""
    given: list[Tensor] = []
    tree = flatten(tuple(primals), given)
    fitted = fitting("tangent", "primal", tree, given, tuple(tangents))
    moves = [_none(of) if t is None else t for t, of in zip(fitted, given, strict=True)]
    variables = Variables(given)
    value, aux = split_aux(function, call(*unflatten(tree, variables.tensors)), has_aux)
    results: list[Tensor] = []
    shape = flatten(value, results)
    floats = [r for r in results if is_float(r)]
    params = variables.params()
    into = [in_type(moves[number], dtype) for number, dtype in params.values()]
    with derivatives(function):
        linear = push_forward(variables.cut([exact(r) for r in floats]), list(params), into)
    values = variables.values()
    changes = [c or zeros(v.type) for c, v in zip(linear.tangents, linear.values, strict=True)]
    nodes = iter(substituted([*linear.values, *changes], values))
    kept = [alike(next(nodes), r) for r in floats]
    moved = [alike(next(nodes), r) for r in floats]
    fixed = iter(outside([r for r in results if not is_float(r)], values))
    each, change = iter(kept), iter(moved)
    tangents_of_results = [next(each) if is_float(r) else next(fixed) for r in results]
    others: list[Tensor] = []
    beside = flatten(aux, others)
    return (
        unflatten(shape, tangents_of_results),
        unflatten(shape, [next(change) if is_float(r) else None for r in results]),
        unflatten(beside, outside(others, values)),
    )


def _none(tensor: Tensor) -> Tensor:
    """A zero tangent for a float."""
    return (
        weak(build.constant(0.0, DType.F64))
        if isinstance(tensor, Number)
        else Tensor(zeros(tensor.node.type))
    )


class PullBack:
    """The linearization of a function at its primals, and the transposed map from cotangents of its
    results to cotangents of the primals.
    """

    def __init__(
        self, function: str, call: Callable[..., Any], primals: Sequence[Any], has_aux: bool
    ) -> None:
        given: list[Tensor] = []
        self._tree = flatten(tuple(primals), given)
        self._function, self._variables = function, Variables(given)
        returned = call(*unflatten(self._tree, self._variables.tensors))
        value, self.aux = split_aux(function, returned, has_aux)
        self._results: list[Tensor] = []
        self._shape = flatten(value, self._results)
        floats = [exact(r) for r in self._results if is_float(r)]
        with derivatives(function):
            self.linear: Linear = linearize(
                self._variables.cut(floats), list(self._variables.params())
            )

    def values(self) -> dict[Node, Node]:
        """Maps each parameter of the traced function to the argument that replaces it."""
        return self._variables.values()

    def value(self) -> Any:
        """The function's value and its auxiliary result."""
        values = self.values()
        kept = iter(substituted(self.linear.values, values))
        fixed = iter(outside([r for r in self._results if not is_float(r)], values))
        results = [alike(next(kept), r) if is_float(r) else next(fixed) for r in self._results]
        others: list[Tensor] = []
        beside = flatten(self.aux, others)
        return unflatten(self._shape, results), unflatten(beside, outside(others, values))

    def pulled(self, cotangents: Any, values: Mapping[Node, Node]) -> tuple[Any, ...]:
        """The cotangents of the primals: pytrees of the same structure, None for integers. `values`
        maps the traced parameters to arguments. Raises SourceError.
        """
        given = fitting("cotangent", "value", self._shape, self._results, inlined(cotangents))
        into = [
            in_type(ct, None if ct is None else node.type.dtype) if ct is not None else None
            for ct, node in zip(
                [ct for ct, r in zip(given, self._results, strict=True) if is_float(r)],
                self.linear.values,
                strict=True,
            )
        ]
        params = list(self._variables.params())
        with derivatives(self._function):
            nodes = self.linear.transposed(into)
        parts = dict(zip(params, substituted(nodes, values), strict=True))
        cotangents_of_primals: tuple[Any, ...] = unflatten(
            self._tree, self._variables.gathered(parts)
        )
        return cotangents_of_primals
