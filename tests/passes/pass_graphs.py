"""Small graphs for the tests of passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

F32 = DType.F32


def graph(*outputs: Node) -> Graph:
    """A graph of outputs, whose inputs are the parameters that they need."""
    found = Graph("g", (), {f"y{n}": node for n, node in enumerate(outputs)})
    inputs = tuple(n for n in found.nodes() if isinstance(n.op, Param) and n.op.kind != "weight")
    return Graph("g", inputs, found.outputs)


def x(*shape: int, dtype: DType = F32, name: str = "x") -> Node:
    return build.param(name, dtype, shape)


def weight(name: str, *shape: int, dtype: DType = F32) -> Node:
    return build.param(name, dtype, shape, "weight")


def counts(g: Graph) -> Counter[str]:
    return Counter(node.op.mnemonic for node in g.nodes())


class Untouched(Mapping[str, Array]):
    """Weights that may not be read."""

    def __getitem__(self, name: str) -> Array:
        raise AssertionError(f"weight {name!r} was read")

    def __contains__(self, name: object) -> bool:
        return name in ("w", "s")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def softmax_of(node: Node) -> Node:
    found = build.apply("softmax", node)
    assert isinstance(found, Node)
    return Node(found.op, found.inputs, found.types, Origin("probabilities"))


def conv(
    image: Node, kernel: Node, layout_: tuple[str, str, str] = ("NCHW", "OIHW", "NCHW")
) -> Node:
    return Node.of(Conv(layout_, (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)), image, kernel)
