"""`xlac.should_compile`: whether a function of TensorFlow takes less time compiled by xlac than it
takes now, estimated from its operations, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlac.frontends.tensorflow.lowered import LoweredTensorFlow, is_variable, lowered
from xlac.ops.control.control import While
from xlac.ops.cost import Cost, nbytes, total
from xlac_sdk.source import XlacError

# Seconds of one thread of a server's processor, from bench/TFLITE.md; only their proportions count.
FLOP = 1 / 1.3e11
BYTE = 1 / 1e11
FRESH = 1 / 1.6e10  # a byte of a result, whose pages are new to a compiled program
CALL = 3e-5  # a call of ours from TensorFlow
VARIABLE = 4e-6  # and each variable that compiled code looks at
OPERATION = 1.1e-5  # an operation of TensorFlow's eager code
SCOPE = 1e-4  # a layer of Keras, which opens a scope of names
GRAPH_CALL = 1e-4  # a call of a tf.function
GRAPH_OPERATION = 1e-6  # and each operation in it
JIT_CALL = 1e-4  # a call of a function with jit_compile


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
    `jit_compile` if it has that, as a graph if it is a tf.function, else one operation after
    another. Nothing is compiled or measured.

    Compiled, each value between operations stays in the processor; one by one, each operation reads
    and writes memory, and layers of Keras take more time than most operations.
    """
    try:
        made = lowered(function, args)
    except XlacError as error:
        return Decision(False, str(error))
    nodes, work = list(made.graph.nodes()), made.work
    compiled = VARIABLE * sum(map(is_variable, made.captured)) + _fused(made)
    own = CALL + compiled
    alone = _seconds(Cost(total(made.graph).flops, work.moved, 0))
    graph = hasattr(function, "get_concrete_function")
    if graph and getattr(function, "_jit_compile", False):
        theirs, how = JIT_CALL + compiled, "with jit_compile"
    elif graph:
        theirs, how = GRAPH_CALL + GRAPH_OPERATION * work.operations + alone, "as a graph"
    else:
        theirs = OPERATION * work.operations + SCOPE * work.scopes + alone
        how = "one operation after another"
    least = " at least" if any(isinstance(node.op, While) for node in nodes) else ""
    reason = (
        f"every operation is supported ({work.operations} of TensorFlow); a call is estimated to "
        f"take {1e3 * own:.2g} ms compiled, of which {1e3 * CALL:.2g} ms are the call itself, and "
        f"{1e3 * theirs:.2g} ms{least} {how}"
    )
    return Decision(own < theirs, reason, own, theirs)


def _fused(made: LoweredTensorFlow) -> float:
    """The time of all operations, where only arguments and results are in memory."""
    graph = made.graph
    given = sum(nbytes(type) for node in graph.outputs.values() for type in node.results)
    taken = sum(nbytes(type) for node in graph.inputs for type in node.results)
    return _seconds(Cost(total(graph).flops, taken, given)) + given * FRESH


def _seconds(work: Cost) -> float:
    return max(work.flops * FLOP, (work.read + work.written) * BYTE)
