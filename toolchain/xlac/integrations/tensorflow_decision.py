"""`xlac.should_compile`: whether a function of TensorFlow takes less time compiled by xlac than it
takes now, estimated from its operations, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlac.frontends.tensorflow.lowered import LoweredTensorFlow, is_variable, lowered
from xlac.ir.graph import Node
from xlac.ops.control.control import Pick, While
from xlac.ops.cost import Cost, cost, nbytes, total
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.ops.tensor.view import Broadcast, Reshape
from xlac_sdk.source import XlacError

# Seconds of one thread of a server's processor, from bench/TFLITE.md; only their proportions count.
FLOP = 1 / 2e10
BYTE = 1 / 1e10
CALL = 2e-4  # a call of ours from TensorFlow
VARIABLE = 1.6e-5  # and each variable that it looks at
OPERATION = 1.2e-5  # an operation of TensorFlow's eager code
JIT_CALL = 4e-4  # a call of a function with jit_compile
NOTHING = (Param, Const, Pick, Iota, Reshape, Broadcast)
"""What eager code does not run: inputs, constants, other shapes of a tensor."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to compile a function, which is its truth value, and why. `own` and `theirs` are the
    estimated seconds of a call compiled by xlac and of one as the function is, 0 where an operation
    is not supported.
    """

    compiles: bool
    reason: str
    own: float = 0.0
    theirs: float = 0.0

    def __bool__(self) -> bool:
        return self.compiles


def should_compile(function: Any, args: Sequence[Any]) -> Decision:
    """Whether a function of TensorFlow is worth compiling for example arguments: every operation is
    supported, and a call is estimated to take less time than one of the function as it is: with
    `jit_compile` if it has that, else one operation after another. Nothing is compiled or measured.

    Compiled, each value between operations stays in the processor, and a call from TensorFlow costs
    a fifth of a millisecond; one by one, each operation reads and writes memory.
    """
    try:
        made = lowered(function, args)
    except XlacError as error:
        return Decision(False, str(error))
    nodes = [node for node in made.graph.nodes() if not isinstance(node.op, NOTHING)]
    own = CALL + VARIABLE * sum(map(is_variable, made.captured)) + _fused(made)
    jitted = bool(getattr(function, "_jit_compile", False))
    if jitted:
        theirs, how = JIT_CALL + _fused(made), "with jit_compile"
    else:
        theirs, how = sum(map(_alone, nodes)), "one operation after another"
    least = " at least" if any(isinstance(node.op, While) for node in nodes) else ""
    reason = (
        f"every operation is supported ({len(nodes)} of StableHLO); a call is estimated to take "
        f"{1e3 * own:.2g} ms compiled, of which {1e3 * CALL:.2g} ms are the call itself, and "
        f"{1e3 * theirs:.2g} ms{least} {how}"
    )
    return Decision(own < theirs, reason, own, theirs)


def _fused(made: LoweredTensorFlow) -> float:
    """The time of all operations, where only arguments and results are in memory."""
    ends = [*made.graph.inputs, *made.graph.outputs.values()]
    moved = sum(nbytes(type) for node in ends for type in node.results)
    return _seconds(Cost(total(made.graph).flops, moved, 0))


def _alone(node: Node) -> float:
    """The time of an operation by itself."""
    return OPERATION + _seconds(cost(node))


def _seconds(work: Cost) -> float:
    return max(work.flops * FLOP, (work.read + work.written) * BYTE)
