"""Convolutions as contractions over a sliding window: rows are pixels, columns output channels.

The axes of the window are summed axes whose strides in x are those of its pixels, so there is no
im2col copy. x may have any layout; it is copied with its padding only where windows leave it or the
input is dilated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.contraction import conv_algorithm, conv_input_choice
from xlac.codegen.core.contraction.axes import ContractionLoop, LowerContraction, arranged, runs
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource
from xlac.codegen.core.contraction.conv_geometry import ConvGeometry, of_phase, whole_geometry
from xlac.codegen.core.contraction.conv_input import windowed_input
from xlac.codegen.core.contraction.conv_input_choice import InputReads, channels_apart
from xlac.codegen.core.contraction.phases import phases_of
from xlac.codegen.core.contraction.tile_loops import of_windows, settled_rows
from xlac.codegen.core.contraction.window_sums import WindowSums
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.schedules.conv import ConvAlgorithm
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.schedule import Schedule
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, upper_bound, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A kernel template for depthwise convolutions, and what it can read."""

    launches: Callable[[WindowSums], list[KernelLaunch]]
    reads: InputReads


LowerWhole = Callable[[Group, Target, str, LowerPart], LoweredGroup]


@dataclass(frozen=True, slots=True)
class Algorithms:
    """The algorithms of a device that can compute a convolution besides a contraction, and the one
    that it chooses.
    """

    chosen: ConvAlgorithm
    depthwise: Depthwise | None = None
    winograd: LowerWhole | None = None
    winograd_weights: LowerWhole | None = None

    @property
    def able(self) -> list[ConvAlgorithm]:
        """The names of all that can compute it."""
        names: list[ConvAlgorithm] = ["contraction"]
        if self.depthwise is not None:
            names.append("depthwise")
        if self.winograd is not None:
            names.append("winograd")
        if self.winograd_weights is not None:
            names.append("winograd_weights")
        return names

    def whole(self, algorithm: ConvAlgorithm) -> LowerWhole | None:
        """The lowering of an algorithm that computes the whole group; None for the others."""
        if algorithm == "winograd":
            return self.winograd
        return self.winograd_weights if algorithm == "winograd_weights" else None


@dataclass(frozen=True, slots=True)
class Templates:
    """The convolution templates of a device."""

    contraction: LowerContraction
    reads: Callable[[Node, Target], InputReads]
    """What the contraction's kernels can read."""
    algorithms: Callable[[Group, Target, Epilogue, Schedule | None], Algorithms]
    """The algorithms for a convolution, from its epilogue and the schedule asked for its kernel."""


TAPS = 1024  # taps of a one-channel kernel that are summed without blocks


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, templates: Templates
) -> LoweredGroup:
    """Launches for a convolution with its epilogue."""
    anchor = group.anchor
    after = epilogue.of(group, anchor)
    if after is None:

        def alone(part: Group) -> LoweredGroup:
            return lower(part, target, name, lower_part, templates)

        return operands.apart(group, anchor, alone, target, name, lower_part)
    decisions = lower_part.decisions
    ways = templates.algorithms(group, target, after, decisions.wanted(name))
    algorithm = conv_algorithm.settled(name, decisions, ways.able, ways.chosen)
    whole = ways.whole(algorithm)
    if whole is not None:
        return whole(group, target, name, lower_part)
    depthwise = ways.depthwise if algorithm == "depthwise" else None
    return _of_windows(group, target, name, lower_part, templates, after, depthwise)


def _of_windows(
    group: Group,
    target: Target,
    name: str,
    lower_part: LowerPart,
    templates: Templates,
    after: Epilogue,
    depthwise: Depthwise | None,
) -> LoweredGroup:
    """The padded copy and packed weights, if any, then the convolution by the template `depthwise`,
    or, if that is None, as a contraction.
    """
    anchor = group.anchor
    reads = depthwise.reads if depthwise else templates.reads(anchor, target)
    decisions = lower_part.decisions
    schedule = decisions.settle(
        f"{name}_input",
        conv_input_choice.choose(group, reads),
        partial(conv_input_choice.check, group=group, reads=reads),
    )
    phases = phases_of(anchor) if schedule.phases else []
    x, edges, before = windowed_input(group, target, name, lower_part, schedule, phases)
    launches = list(before)
    kernel = operands.resolve(anchor.inputs[1], group) or operands.folded(anchor.inputs[1], group)
    if kernel is None:
        kernel, kernel_launches = operands.materialize(
            anchor.inputs[1], group, target, f"{name}_kernel", lower_part
        )
        launches += kernel_launches
    whole = whole_geometry(anchor, x, edges, kernel)
    for number, phase in enumerate(phases or [{}]):
        geometry, first_tap = of_phase(whole, phase, phases)
        left = OperandSource(x.value, anchor.inputs[0].type.dtype, geometry.offset)
        right = OperandSource(kernel.value, anchor.inputs[1].type.dtype, kernel.offset + first_tap)
        part = f"{name}_phase{number}" if phases else name
        if depthwise:
            sums = WindowSums(group, target, part, decisions, after, geometry, left, right, kernel)
            launches += depthwise.launches(sums)
        else:
            c = canonical(anchor, after, geometry, left, right, part, decisions)
            launches += templates.contraction(group, target, part, decisions, c, after, kernel)
    used = {v.value for v in (x, kernel) if isinstance(v.value, Node)}
    return LoweredGroup(tuple(launches), epilogue.in_place(after, used))


def has_few_taps(anchor: Node) -> bool:
    """Whether a kernel has so few taps that they are summed in one block; others take several."""
    assert isinstance(anchor.op, Conv)
    taps = dict(zip(anchor.op.layout[1], anchor.inputs[1].shape, strict=True))
    return upper_bound(volume(tuple(taps[letter] for letter in anchor.op.spatial))) <= TAPS


def is_depthwise_nhwc(group: Group, phases: bool = False, copied: bool = False) -> bool:
    """Whether it is a depthwise convolution with channels contiguous in the result, and in x unless
    that may be `copied`, whose input is not dilated, or is convolved in `phases`. Only where x may
    be copied, with its padding, can maps have open sizes.
    """
    op, x = group.anchor.op, operands.resolve(group.anchor.inputs[0], group)
    assert isinstance(op, Conv)
    taps = dict(zip(op.layout[1], group.anchor.inputs[1].shape, strict=True))
    channels = group.anchor.shape[op.layout[2].index("C")]
    dense = op.layout[2][-1] == "C" and (
        op.layout[0][-1] == "C" if x is None else copied or not channels_apart(group.anchor, x)
    )
    whole = all(step == 1 for step in op.lhs_dilation) or (phases and phases_of(group.anchor))
    cut = [*taps.values(), channels, *([] if copied else space_of(group.anchor))]
    if not all(isinstance(n, int) for n in cut):
        return False  # their loops are unrolled at compile time
    return (
        op.feature_groups == channels
        and op.feature_groups > 1
        and taps["I"] == 1
        and dense
        and bool(whole)
    )


def space_of(anchor: Node) -> list[Dim]:
    """The sizes of the result along its spatial axes."""
    assert isinstance(anchor.op, Conv)
    return [n for n, s in zip(anchor.shape, anchor.op.layout[2], strict=True) if s not in "NC"]


def canonical(
    anchor: Node,
    after: Epilogue,
    g: ConvGeometry,
    left: OperandSource,
    right: OperandSource,
    name: str,
    decisions: Decisions,
) -> Contraction:
    """The convolution with its axes classified as outer, rows, columns and inner."""
    letters = g.op.layout[2]
    per_group = g.result["C"] // g.groups
    axes = []
    for letter in letters:
        step = g.x["N"] if letter == "N" else g.moves(letter) if letter != "C" else 0
        along = tuple(
            g.op.strides[g.op.spatial.index(letter)] if s == letter else 0 for s in g.edges
        )
        axes.append(Axis(g.result[letter], step, 0, along))
    channel = letters.index("C")
    apart = [n for n, letter in enumerate(letters) if letter == "C" or letter in g.phase]
    around = [
        run
        for first, stop in zip([-1, *apart], [*apart, len(letters)], strict=True)
        for run in (*_phase_run(axes, first, g), *runs(axes[first + 1 : stop], first + 1))
    ]
    firsts = {n: g.phase[letter].first for n, letter in enumerate(letters) if letter in g.phase}
    rows = settled_rows(name, decisions, around, range(len(around)), of_windows(around))
    if g.groups > 1:
        per_batch = g.x["N"] * g.result["N"] if g.op.batch_groups > 1 else g.x["C"] * g.taps["I"]
        around.insert(
            0,
            ContractionLoop(
                Axis(g.groups, per_batch, g.kernel["O"] * per_group), (channel,), per_group
            ),
        )
    columns = ContractionLoop(Axis(per_group, 0, g.kernel["O"]), (channel,))
    summed = [
        Axis(
            g.taps[s],
            g.reaches(s),
            g.kernel[s],
            tuple(step if s == edge else 0 for edge in g.edges),
        )
        for s, step in zip(g.op.spatial, g.op.rhs_dilation, strict=True)
    ]
    summed.append(Axis(g.taps["I"], g.x["C"], g.kernel["I"]))
    borders = tuple(g.edges.values())
    return arranged(anchor, after, around, rows, columns, summed, left, right, borders, firsts)


def _phase_run(axes: Sequence[Axis], axis: int, g: ConvGeometry) -> list[ContractionLoop]:
    """The loop over an axis of the result along which results of a phase are strided, if any."""
    letter = g.op.layout[2][axis] if axis >= 0 else "C"
    if letter not in g.phase or axes[axis].extent == 1:
        return []
    return [ContractionLoop(axes[axis], (axis,), g.phase[letter].step)]
