"""What windows send to the elements that they choose, on a CPU: the gradient of pooling by the largest.

Windows are gone through in order, and rows of the result are set to zero as the first window reaches
them, so that sums are made in a cache. Where neighbours in memory are elements that the window does
not move along (channels last), they are lanes: each place of the window takes what was sent to it.
Else lanes are windows: a row of them chooses, and then each sends what it has to one element.
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
