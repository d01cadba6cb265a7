"""A model whose names try to be markup, and its document."""

from __future__ import annotations

import json
from typing import Any

from xlac.debug.report.document import ReportData
from xlac.debug.report.pass_changes import PassRecorder
from xlac.debug.report.stage_times import StageTimes
from xlac.driver import lower
from xlac.ir.graph import Graph, Node
from xlac.ir.op import OPS
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.source import Origin
from xlac_sdk.target import Request

NAMES = (
    "</script><script>window.broken=1</script>",
    '"><img src=x onerror="window.broken=1">',
    "{{constructor.constructor('window.broken=1')()}}",
    "]]>--><svg onload=window.broken=1>",
    "a\u2028b\u202ec\x00\ud800",
    "__proto__",
    "toString.constructor",
    "'; window.broken = 1; //",
)


def document() -> dict[str, Any]:
    """The document of a chain of operations with these names."""
    x = Node.of(Param(NAMES[0], Type(DType.F32, (4, 4)), "input"), origin=Origin(NAMES[0]))
    node = x
    for name in NAMES:
        make: Any = OPS["tanh"]
        node = Node.of(make(), node, origin=Origin(name))
    graph = Graph(NAMES[0], (x,), {NAMES[1]: node})
    backend = find("c")
    passes, stages = PassRecorder(), StageTimes()
    model = Model(graph, {})
    with stages.watching(NAMES[3]):
        lowered = lower(model, backend.target(Request()), observers=[passes])
    made = ReportData(lowered, model.graph, backend, passes, stages).json()
    return json.loads(json.dumps(made))
