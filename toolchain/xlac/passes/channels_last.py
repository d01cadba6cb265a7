"""Brings all convolutions to one layout, channels last, so that the transposes between them cancel.

x and the result are NHWC, the kernel HWIO (for any number of spatial axes). Transposes of weights
are computed at compile time; those of values sink through the operations between two convolutions
and meet their inverses.
"""

from __future__ import annotations

from xlac.ir.graph import Graph, Node
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Add
from xlac.ops.scalar.exponential import Exp
from xlac.ops.tensor.view import Transpose
from xlac.passes import motion
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import MOST, rewrite
from xlac.passes.rewrite.rule import Parameter, Rule, Site, rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.rules import layouts
from xlac.passes.rules.constants import POINTWISE, is_pointwise
from xlac.passes.rules.repeats import REPEATS
from xlac.passes.rules.transposes import is_free, sunk
from xlac.passes.rules.views import transpose


def _conv(
    p: Parameter, layout: tuple[str, str, str], x: tuple[int, ...], kernel: tuple[int, ...]
) -> Node:
    rank = len(x) - 2
    ones, steps = (1,) * rank, tuple(range(1, rank + 1))
    return Node.of(Conv(layout, steps, steps, (0,) * rank, ones, ones), p(*x), p(*kernel))


@rule(
    Conv,
    examples=[
        lambda p: _conv(p, ("NCHW", "OIHW", "NCHW"), (2, 3, 6, 5), (4, 3, 3, 2)),
        lambda p: _conv(p, ("NCHW", "OIWH", "WNCH"), (2, 3, 6, 5), (4, 3, 3, 2)),
        lambda p: _conv(p, ("NWHC", "HWIO", "NHWC"), (2, 6, 5, 3), (3, 2, 3, 4)),
        lambda p: _conv(p, ("NCW", "OIW", "NCW"), (2, 3, 6), (4, 3, 3)),
    ],
)
def channels_last(node: Node, site: Site) -> Node | None:
    """Rewrites a convolution of another layout as channels last between transposes."""
    assert isinstance(node.op, Conv)
    if node.op.layout == layouts.channels_last(node.op):
        return None
    if not site.context.choices.applies("channels last", node):
        return None
    return layouts.in_channels_last(node, site)


def _sum_of_conv(p: Parameter) -> Node:
    """x + a transposed convolution of channels-last layout."""
    image, kernel = p(1, 3, 3, 2), p(1, 1, 2, 2)
    conv = Node.of(
        Conv(("NHWC", "HWIO", "NHWC"), (1, 1), (0, 0), (0, 0), (1, 1), (1, 1)), image, kernel
    )
    return Node.of(Add(), p(1, 2, 3, 3), transpose(Node.of(Exp(), conv), 0, 3, 1, 2))


@rule(*POINTWISE, examples=[_sum_of_conv])
def sink_transpose_of_conv(node: Node, site: Site) -> Node | None:
    """A transpose of what a convolution computes becomes one of the result, where the others are
    read transposed already: a residual sum whose first term another convolution has read.
    """
    if not is_pointwise(node):
        return None
    likely = next(
        (i for i in node.inputs if isinstance(i.op, Transpose) and is_of_conv(i.inputs[0])), None
    )
    if likely is None:
        return None
    return sunk(node, likely, site, lambda i, inverse: is_free(i) or site.has(inverse, i))


def is_of_conv(node: Node, most: int = 32) -> bool:
    """Whether a value is computed from a channels-last convolution by pointwise operations only,
    of which no more than `most` are looked at. Since transposes end the search, the transposes
    that `sink_transpose_of_conv` makes are never moved back.
    """
    nodes = [node]
    for _ in range(most):
        if not nodes:
            return False
        one = nodes.pop()
        if isinstance(one.op, Conv):
            return one.op.layout[2].endswith("C")
        nodes += one.inputs if is_pointwise(one) else ()
    return False


RULES: tuple[Rule, ...] = (channels_last, *REPEATS, *motion.RULES, sink_transpose_of_conv)


@register("channels-last")
class ChannelsLastPass(Pass):
    """Brings all convolutions to one layout, channels last.

    `limit` bounds the rewrites that one node of the graph may set off.
    """

    limit: int = at_least(0, MOST)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        first = next((node for node in graph.nodes() if isinstance(node.op, Conv)), None)
        if first is not None and not context.choices.applies("all channels last", first):
            return graph
        return rewrite(graph, RULES, trace, context, self.limit)
