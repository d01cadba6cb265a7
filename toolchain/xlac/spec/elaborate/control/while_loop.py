"""While loops in specs."""

from __future__ import annotations

from xlac.ir.dims import Dim, bounds
from xlac.ir.graph import Graph
from xlac.ir.op import Op
from xlac.ir.types import Type
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.control.bodies import (
    apply,
    body_scope,
    branch,
    captured,
    handed,
    named,
    run_body,
    see,
)
from xlac.spec.elaborate.control.carried import Carried
from xlac.spec.elaborate.scope import Bundle, Scope, Value
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema
from xlac_sdk.dtypes import DType

MOST = 2**31 - 1


def loop(
    context: Elaboration, scope: Scope, spec: schema.WhileNode, path: str, place: Place
) -> Value:
    """A while loop. Raises Fault or Poisoned."""
    from xlac.ops.control.bounded import BoundedWhile
    from xlac.ops.control.control import While

    carried = Carried(context, scope, spec, path, place)
    if not carried.inits:
        raise Fault("XL2012", "a while loop carries at least one value", place.at("carry").span)
    inner = body_scope(scope, path)
    test_params, body_params = carried.params(path, place), carried.params(path, place)
    inner.values.update(carried.values(body_params))
    given = handed(context, scope, spec.given, path, place)
    given_params = see(inner, given, path, place)
    at = place.at("while")
    test, tested, outputs = branch(
        context, scope, spec.condition, f"{path}.while", at, given, carried.values(test_params)
    )
    if len(outputs) != 1:
        raise Fault(
            "XL2012", f"the condition of while is one value, and this gives {len(outputs)}", at.span
        )
    (holds,) = outputs.values()
    if holds.type != Type(DType.BOOL):
        raise Fault(
            "XL2009", f"the condition of while is {holds.type}, and must be bool[]", at.span
        )
    run_body(context, inner, spec.body, place.at("body"))
    after = carried.next(context, inner, spec, path, place)
    read = set(Graph(path, tuple(test_params), {"y0": holds}).nodes())
    if all(
        param not in read or value is same
        for param, value, same in zip(test_params, after, body_params, strict=True)
    ):
        message = (
            "the condition of while reads no carried value that changes: the loop would never end, "
            "or never begin"
        )
        raise Fault("XL2018", message, at.span, f"it carries {', '.join(carried.inits)}")
    outer, (in_test, in_body) = captured(scope, [test, inner.frame])
    cond = Graph(f"{path}.while", (*test_params, *tested, *in_test.values()), {"y0": holds})
    inputs = (*body_params, *given_params, *in_body.values())
    body = Graph(path, inputs, named([*after, *given_params, *in_body.values()]))
    op: Op = While(cond, body)
    if spec.max is not None:
        op = BoundedWhile(cond, body, most(scope, spec, place))
    results = apply(context, op, [*carried.flat(), *given.values(), *outer], "while", path, place)
    members = carried.values(results[: len(after)])
    return Bundle(members, next(iter(members.values())), tuple(members.values()))


def most(scope: Scope, spec: schema.WhileNode, place: Place) -> Dim:
    """The maximal number of iterations of a loop. Raises Fault."""
    at = place.at("max")
    steps = type_text.size_value(arithmetic.value(spec.max, scope.constants, at), at)
    if bounds(steps)[0] < 1 or bounds(steps)[1] > MOST:
        problem = f"max is from 1 to {MOST}, got {steps}"
        raise Fault("XL2006", problem, at.span, "the condition of while may end the loop sooner")
    return steps
