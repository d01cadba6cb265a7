"""The gradient of max pooling on a CPU.

Windows are processed in order, and rows of the result are cleared just before the first window
reaches them, so that sums stay in a cache. If windows do not move along the contiguous axis
(channels last), its elements are lanes: each position of the window gets what was sent to it.
Otherwise lanes are windows: a row of windows selects elements, and then each adds its gradient to
one element.
"""

from __future__ import annotations

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.cpu.window_choice.axes import moving
from xlac.codegen.cpu.window_choice.channels import WindowsOfChannels
from xlac.codegen.cpu.window_choice.lines import LinesOfWindows
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch."""
    elements = Elements(Builder(), group, target)
    axes = moving(group.anchor)
    assert axes is not None
    lines = axes[-1].axis == group.anchor.type.rank - 1
    (LinesOfWindows if lines else WindowsOfChannels)(elements, axes).write(
        name, lower_part.decisions
    )
    return LoweredGroup((elements.launch(name, cost.work(group)),))
