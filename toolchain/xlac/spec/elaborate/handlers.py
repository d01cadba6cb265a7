"""The table of functions that elaborate each kind of entry: the only module that imports all of
them.
"""

from __future__ import annotations

from xlac.spec.elaborate.blocks.blocks import use
from xlac.spec.elaborate.context import Handlers
from xlac.spec.elaborate.control.bodies import function
from xlac.spec.elaborate.control.cond import cond
from xlac.spec.elaborate.control.scan import scan
from xlac.spec.elaborate.control.while_loop import loop
from xlac.spec.elaborate.custom.operation import call_operator, custom_node
from xlac.spec.elaborate.op_node import operation
from xlac.spec.schema import schema

HANDLERS = Handlers(
    entries={
        schema.OpNode: operation,
        schema.BlockNode: use,
        schema.ScanNode: scan,
        schema.WhileNode: loop,
        schema.CondNode: cond,
    },
    custom_node=custom_node,
    custom_call=call_operator,
    function=function,
)
