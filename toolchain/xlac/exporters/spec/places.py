"""The section `place` of a written spec."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xlac.ir.graph import Node
from xlac.model import Model
from xlac.placement.devices import assigned
from xlac.spec.text.write import flow, scalar


def places(model: Model, keys: Mapping[Node, Sequence[str]]) -> list[str]:
    """Targets by the paths that nodes will have, as patterns of before may not fit these. Entries
    such as y~1 are of the path y.
    """
    of_node, lines = assigned(model.graph, model.place).of_node, []
    for node in model.graph.order:
        said = of_node.get(node)
        if said is not None and node in keys:
            pattern = re.sub(r"([*?\[])", r"[\1]", keys[node][0].partition("~")[0])
            targets = said.targets[0] if len(said.targets) == 1 else list(said.targets)
            lines.append(f"  {scalar(pattern)}: {flow(targets)}")
    inner_first = sorted(dict.fromkeys(lines), key=lambda line: -line.count("."))
    return ["place:", *inner_first] if lines else []
