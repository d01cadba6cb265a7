"""Matrix products."""

from __future__ import annotations

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.ops.convolution import summed
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("FULLY_CONNECTED", "FullyConnectedOptions")
def fully_connected(call: TFLiteCall) -> Node:
    """x (…, inputs), weight (outputs, inputs), bias (outputs); leading axes become one unless
    `keep_num_dims`.
    """
    x, weight = call[0], call[1]
    if weight.type.rank != 2:
        call.fail(f"the weight has rank 2, not {weight.type}")
    if call.chosen("weights_format", "FullyConnectedOptionsWeightsFormat") != "DEFAULT":
        call.fail("weights in the order that one kernel of ARM reads are not supported")
    inputs = weight.shape[1]
    lead = x.shape[:-1]

    def product(a: Node, b: Node, out: DType) -> Node:
        return build.dot(build.reshape(a, (-1, inputs)), b, ((1,), (1,)), out_dtype=out)

    sums = summed(call, product, filters=0)
    if call.option("keep_num_dims"):
        return build.reshape(sums, (*lead, weight.shape[0]))
    return sums


@operator("BATCH_MATMUL", "BatchMatMulOptions")
def batch_matmul(call: TFLiteCall) -> Node:
    """x (…, n, k) times y (…, k, m), whose leading axes broadcast; `adj_x` and `adj_y` swap the
    last two.
    """

    def product(a: Node, b: Node, out: DType) -> Node:
        a, b = _swapped(a, call.option("adj_x")), _swapped(b, call.option("adj_y"))
        return build.apply1("matmul", build.cast(a, out), build.cast(b, out))

    if min(call[0].type.rank, call[1].type.rank) < 2:
        call.fail(f"matrices have at least 2 axes, got {call[0].type} and {call[1].type}")
    return summed(call, product, filters=-1)


def _swapped(x: Node, swap: bool) -> Node:
    rank = x.type.rank
    return build.transpose(x, (*range(rank - 2), rank - 1, rank - 2)) if swap else x


@operator("EMBEDDING_LOOKUP")
def embedding_lookup(call: TFLiteCall) -> Node:
    """Rows of a table, which may be quantized."""
    ids, table = call[0], call.real(1)
    return call.give(build.take(table, ids, 0))
