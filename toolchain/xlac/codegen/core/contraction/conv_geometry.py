"""Sizes and strides of a convolution, whole or of one phase of its dilated input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlac.codegen.core.contraction.contraction import Edge
from xlac.codegen.core.contraction.conv_input_choice import reached
from xlac.codegen.core.contraction.phases import AxisPhase, Phase
from xlac.codegen.core.operands import OperandView
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr


@dataclass(frozen=True, slots=True)
class ConvGeometry:
    """Sizes and strides of a convolution by axis letter, or those of one of its phases."""

    op: Conv
    x: dict[str, Dim]  # element strides of x, including padding if it was copied
    kernel: dict[str, Dim]
    taps: dict[str, Dim]  # sizes of the kernel
    result: dict[str, Dim]  # sizes of the result
    offset: Dim  # of the first window's start in x
    # the spatial axes along which windows leave x, if x is read without a padded copy
    edges: dict[str, Edge]
    phase: Mapping[str, AxisPhase] = field(default_factory=dict)

    def place(self, letter: str, counter: Expr) -> Expr:
        """The position along an axis of the result, from the counter of its loop in this phase."""
        if letter not in self.phase:
            return counter
        along = self.phase[letter]
        return build.add(build.mul(counter, along.step), along.first)

    @property
    def groups(self) -> int:
        """The number of groups, of channels or of the batch."""
        return self.op.feature_groups * self.op.batch_groups

    def moves(self, letter: str) -> Dim:
        """The stride in x of one step of the result along a spatial axis."""
        return self.x[letter] * self.op.strides[self.op.spatial.index(letter)]

    def reaches(self, letter: str) -> Dim:
        """The stride in x of one step of the kernel along a spatial axis."""
        return self.x[letter] * self.op.rhs_dilation[self.op.spatial.index(letter)]


def whole_geometry(
    anchor: Node, x: OperandView, edges: dict[str, Edge], kernel: OperandView
) -> ConvGeometry:
    """The geometry of a convolution from the layouts of its input and its kernel."""
    op = anchor.op
    assert isinstance(op, Conv)
    return ConvGeometry(
        op,
        dict(zip(op.layout[0], x.strides, strict=True)),
        dict(zip(op.layout[1], kernel.strides, strict=True)),
        dict(zip(op.layout[1], anchor.inputs[1].shape, strict=True)),
        dict(zip(op.layout[2], anchor.shape, strict=True)),
        x.offset,
        edges,
    )


def of_phase(
    whole: ConvGeometry, phase: Phase, phases: Sequence[Phase]
) -> tuple[ConvGeometry, Dim]:
    """The geometry of one phase, and the offset of its first tap in the kernel."""
    if not phase:
        return whole, 0
    op, spatial = whole.op, whole.op.spatial
    offset, tap = whole.offset, volume((0,))
    strides, reaches, gaps = list(op.strides), list(op.rhs_dilation), list(op.lhs_dilation)
    kernel, taps, result = dict(whole.kernel), dict(whole.taps), dict(whole.result)
    edges = dict(whole.edges)
    for letter, along in phase.items():
        axis = spatial.index(letter)
        strides[axis], reaches[axis], gaps[axis] = along.moves, along.reaches, 1
        before = reached(letter, phases)[0]  # elements before x at which its view begins
        offset = offset + whole.x[letter] * (along.start + before)
        tap = tap + whole.kernel[letter] * along.first_tap
        kernel[letter] = whole.kernel[letter] * along.tap_step
        taps[letter], result[letter] = along.taps, along.count
        if letter in edges:
            edges[letter] = Edge(-along.start, edges[letter].extent)
    moved = replace(
        op, strides=tuple(strides), rhs_dilation=tuple(reaches), lhs_dilation=tuple(gaps)
    )
    return ConvGeometry(moved, whole.x, kernel, taps, result, offset, edges, phase), tap
