"""Windows that move over tensors, on a CPU."""

from __future__ import annotations

from xlac.codegen.core import window
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.window_loops import WindowLoops
from xlac.fusion.group import Group
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """The copies with padding, if any, then one kernel for the windows and what follows them."""
    return window.lower(group, target, name, lower_part, WindowLoops)
