"""Optimizer steps (ai.onnx.preview.training, operator set 1), for any number of tensors at once."""

from __future__ import annotations

from collections.abc import Callable

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build

TRAINING = "ai.onnx.preview.training"


def _each(
    call: OperatorCall, kinds: int, step: Callable[..., tuple[Node, ...]]
) -> tuple[Node, ...]:
    """Inputs are the rate, the step count, then all tensors, all gradients, and all tensors of each
    state; outputs are ordered likewise.

    `step` maps a tensor, its gradient and its states to a new tensor and new states.
    """
    count, rest = divmod(len(call) - 2, kinds)
    if rest or count < 1:
        raise ShapeError(
            f"{call.operator} takes a rate, a count, and {kinds} inputs for each tensor, got "
            f"{len(call)}"
        )
    updates = [step(*(call[2 + kind * count + n] for kind in range(kinds))) for n in range(count)]
    return tuple(results[n] for n in range(kinds - 1) for results in updates)


def _scalar(call: OperatorCall, number: int, like: Node) -> Node:
    return build.cast(build.reshape(call[number], ()), like.type.dtype)


def _regularized(x: Node, gradient: Node, share: float) -> Node:
    return build.add(build.mul(x, share), gradient) if share else gradient


@operator("Adagrad", domain=TRAINING)
def adagrad(call: OperatorCall) -> tuple[Node, ...]:
    """One step of Adagrad for each tensor; new values, then the sums of squares."""
    epsilon, decay, share = (
        call.attr("epsilon", 0.0),
        call.attr("decay_factor", 0.0),
        call.attr("norm_coefficient", 0.0),
    )

    def step(x: Node, gradient: Node, squares: Node) -> tuple[Node, ...]:
        rate = build.div(_scalar(call, 0, x), build.add(build.mul(_scalar(call, 1, x), decay), 1.0))
        gradient = _regularized(x, gradient, share)
        squares = build.add(squares, build.mul(gradient, gradient))
        return build.sub(
            x, build.div(build.mul(gradient, rate), build.add(build.sqrt(squares), epsilon))
        ), squares

    return _each(call, 3, step)


@operator("Adam", domain=TRAINING)
def adam(call: OperatorCall) -> tuple[Node, ...]:
    """One step of Adam for each tensor; new values, then first and second moments."""
    alpha, beta = call.attr("alpha", 0.9), call.attr("beta", 0.999)
    epsilon, share, after = (
        call.attr("epsilon", 0.0),
        call.attr("norm_coefficient", 0.0),
        call.attr("norm_coefficient_post", 0.0),
    )

    def step(x: Node, gradient: Node, mean: Node, squares: Node) -> tuple[Node, ...]:
        gradient = _regularized(x, gradient, share)
        mean = build.add(build.mul(mean, alpha), build.mul(gradient, 1 - alpha))
        squares = build.add(
            build.mul(squares, beta), build.mul(build.mul(gradient, gradient), 1 - beta)
        )
        rate, count = _scalar(call, 0, x), _scalar(call, 1, x)
        kept = [
            build.sub(1.0, build.apply1("pow", build.constant(b, x.type.dtype), count))
            for b in (alpha, beta)
        ]
        corrected = build.div(build.mul(rate, build.sqrt(kept[1])), kept[0])
        rate = build.select(build.compare(count, "gt", 0.0), corrected, rate)
        moved = build.sub(
            x, build.mul(build.div(mean, build.add(build.sqrt(squares), epsilon)), rate)
        )
        return build.mul(moved, 1 - after) if after else moved, mean, squares

    return _each(call, 4, step)


@operator("Momentum", domain=TRAINING)
def momentum(call: OperatorCall) -> tuple[Node, ...]:
    """A step with momentum for each tensor, standard or Nesterov's; new values, then velocities."""
    alpha, beta, share = call.attr("alpha"), call.attr("beta"), call.attr("norm_coefficient")
    mode = call.attr("mode")
    if mode not in ("standard", "nesterov"):
        call.fail(f"mode is standard or nesterov, not '{mode}'")

    def step(x: Node, gradient: Node, speed: Node) -> tuple[Node, ...]:
        gradient = _regularized(x, gradient, share)
        later = build.compare(_scalar(call, 1, x), "gt", 0.0)
        speed = build.add(
            build.mul(speed, alpha),
            build.mul(gradient, build.select(later, build.constant(beta, x.type.dtype), 1.0)),
        )
        way = build.add(build.mul(speed, alpha), gradient) if mode == "nesterov" else speed
        return build.sub(x, build.mul(way, _scalar(call, 0, x))), speed

    return _each(call, 3, step)


@operator("Gradient", domain=TRAINING)
def gradient(call: OperatorCall) -> Node:
    """Always refused: the importer does not differentiate graphs."""
    call.fail("graphs are not differentiated here", hint="export the model with its backward graph")
