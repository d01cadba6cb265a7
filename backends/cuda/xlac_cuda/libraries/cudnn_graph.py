"""Operation graphs of cuDNN: descriptors of tensors and operations, and execution plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xlac_cuda.libraries.cudnn import Cudnn
from xlac_cuda.libraries.cudnn_names import (
    CROSS_CORRELATION,
    FALLBACK,
    MODE_A,
    PROPAGATE_NAN,
    TYPES,
    Attribute,
    DescriptorKind,
    Note,
    Pointwise,
)
from xlac_cuda.libraries.cudnn_plans import A, CudnnMachine, Plan, PlanChoice, Values
from xlac_sdk.dtypes import DType
from xlac_sdk.source import UnsupportedError

Shape = tuple[int, ...]
F32 = TYPES[DType.F32]
MOST_ENGINES = 64  # of the plans that heuristics suggest
MOST_NOTES = 16
MOST_KNOBS = 64


@dataclass(frozen=True, slots=True)
class _Tensor:
    descriptor: int
    extents: Shape
    strides: Shape


class Operations:
    """A graph being built, in which tensors are identified by numbers, from 1 in order of creation.

    Intermediate values are f32 and never in memory.
    """

    def __init__(self, dnn: Cudnn, machine: CudnnMachine) -> None:
        self.dnn, self.machine = dnn, machine
        self._made: list[int] = []
        self._tensors: dict[int, _Tensor] = {}
        self._operations: list[int] = []

    def close(self) -> None:
        """Destroys the descriptors."""
        while self._made:
            self.dnn("cudnnBackendDestroyDescriptor", self._made.pop())

    # ---- tensors -----------------------------------------------------------------------------

    def tensor(self, dtype: DType, extents: Shape, strides: Shape, alignment: int) -> int:
        """A tensor in memory, with an alignment in bytes."""
        return self._tensor(dtype, extents, strides, {A.TENSOR_BYTE_ALIGNMENT: alignment})

    def scalar(self, rank: int, dtype: DType = DType.F32) -> int:
        """A number that the host passes in every call."""
        ones = (1,) * rank
        return self._tensor(
            dtype, ones, ones, {A.TENSOR_BYTE_ALIGNMENT: dtype.nbytes, A.TENSOR_IS_BY_VALUE: True}
        )

    def like(self, other: int, dtype: DType = DType.F32) -> int:
        """A virtual tensor (not in memory), with the axis order of another."""
        known = self._tensors[other]
        order = sorted(range(len(known.extents)), key=lambda axis: (-known.strides[axis], axis))
        return self.value(known.extents, order, dtype)

    def value(self, extents: Shape, order: Sequence[int], dtype: DType = DType.F32) -> int:
        """A virtual tensor (not in memory), contiguous along the last axis of `order`."""
        strides, step = [0] * len(extents), 1
        for axis in reversed(order):
            strides[axis], step = step, step * extents[axis]
        return self._tensor(
            dtype, extents, tuple(strides), {A.TENSOR_BYTE_ALIGNMENT: 16, A.TENSOR_IS_VIRTUAL: True}
        )

    def _tensor(self, dtype: DType, extents: Shape, strides: Shape, more: Values) -> int:
        number = len(self._tensors) + 1
        values = {
            A.TENSOR_UNIQUE_ID: number,
            A.TENSOR_DATA_TYPE: TYPES[dtype],
            A.TENSOR_DIMENSIONS: extents,
            A.TENSOR_STRIDES: strides,
        }
        self._tensors[number] = _Tensor(
            self.final(DescriptorKind.TENSOR, {**values, **more}), extents, strides
        )
        return number

    # ---- operations --------------------------------------------------------------------------

    def convolution(
        self, x: int, kernel: int, y: int, strides: Shape, low: Shape, high: Shape, dilation: Shape
    ) -> None:
        """Adds a convolution of tensors, by their numbers; padding is `low` and `high`."""
        described = self.final(
            DescriptorKind.CONVOLUTION,
            {
                A.CONVOLUTION_COMP_TYPE: F32,
                A.CONVOLUTION_CONV_MODE: CROSS_CORRELATION,
                A.CONVOLUTION_SPATIAL_DIMS: len(strides),
                A.CONVOLUTION_FILTER_STRIDES: strides,
                A.CONVOLUTION_PRE_PADDINGS: low,
                A.CONVOLUTION_POST_PADDINGS: high,
                A.CONVOLUTION_DILATIONS: dilation,
            },
        )
        self._operation(
            DescriptorKind.OPERATION_CONVOLUTION_FORWARD,
            {
                A.CONVOLUTION_FORWARD_X: x,
                A.CONVOLUTION_FORWARD_W: kernel,
                A.CONVOLUTION_FORWARD_Y: y,
            },
            {
                A.CONVOLUTION_FORWARD_CONV_DESC: described,
                A.CONVOLUTION_FORWARD_ALPHA: 1.0,
                A.CONVOLUTION_FORWARD_BETA: 0.0,
            },
        )

    def pointwise(self, mode: Pointwise, x: int, other: int, y: int) -> None:
        """An element-wise operation; the second operand, if it is not 0, is broadcast along its
        axes of size 1.
        """
        keeps = {A.POINTWISE_NAN_PROPAGATION: PROPAGATE_NAN} if mode is Pointwise.RELU_FWD else {}
        described = self.final(
            DescriptorKind.POINTWISE, {A.POINTWISE_MODE: mode, A.POINTWISE_MATH_PREC: F32, **keeps}
        )
        sides = {
            A.OPERATION_POINTWISE_XDESC: x,
            A.OPERATION_POINTWISE_BDESC: other,
            A.OPERATION_POINTWISE_YDESC: y,
        }
        used = {side: tensor for side, tensor in sides.items() if tensor}
        self._operation(
            DescriptorKind.OPERATION_POINTWISE,
            used,
            {A.OPERATION_POINTWISE_PW_DESCRIPTOR: described},
        )

    def product(self, a: int, b: int, y: int) -> None:
        """Matrix products over the last two axes."""
        described = self.final(DescriptorKind.MATMUL, {A.MATMUL_COMP_TYPE: F32})
        sides = {
            A.OPERATION_MATMUL_ADESC: a,
            A.OPERATION_MATMUL_BDESC: b,
            A.OPERATION_MATMUL_CDESC: y,
        }
        self._operation(
            DescriptorKind.OPERATION_MATMUL, sides, {A.OPERATION_MATMUL_DESC: described}
        )

    def softmax(self, x: int, y: int) -> None:
        """Softmax along the last axis."""
        self._operation(
            DescriptorKind.OPERATION_SOFTMAX, {A.SOFTMAX_XDESC: x, A.SOFTMAX_YDESC: y}, {}
        )

    def causal(self, x: int, time: int, length: int, hidden: int, y: int) -> None:
        """Scores with causal masking: `hidden` where a key is later than its query; the last query
        sees all keys. `time` and `length`, the numbers of queries and keys, are i32 numbers passed
        by the host, as is `hidden`, f32.
        """
        sides = {
            A.DIAGONAL_BAND_MASK_XDESC: x,
            A.DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC: length,
            A.DIAGONAL_BAND_MASK_SEQ_LEN_QDESC: time,
            A.DIAGONAL_BAND_MASK_BDESC: hidden,
            A.DIAGONAL_BAND_MASK_YDESC: y,
        }
        self._operation(
            DescriptorKind.OPERATION_DIAGONAL_BAND_MASK,
            sides,
            {A.DIAGONAL_BAND_MASK_COMPARISON_MODE: Pointwise.CMP_GE},
        )

    def _operation(
        self, kind: DescriptorKind, tensors: Mapping[Attribute, int], others: Values
    ) -> None:
        sides = {
            attribute: self._tensors[tensor].descriptor for attribute, tensor in tensors.items()
        }
        self._operations.append(self.final(kind, {**sides, **others}))

    # ---- plans -------------------------------------------------------------------------------

    def graph(self) -> int:
        """All operations as one graph."""
        return self.final(
            DescriptorKind.OPERATIONGRAPH,
            {A.OPERATIONGRAPH_OPS: self._operations, **self.machine.graph},
        )

    def suggested(self, graph: int, refused: frozenset[Note], workspace: int) -> Iterator[Plan]:
        """Plans suggested by the library's heuristics, the expected fastest first, without engines
        that have refused notes.
        """
        for mode in (MODE_A, FALLBACK):
            given = {
                A.ENGINEHEUR_OPERATION_GRAPH: graph,
                A.ENGINEHEUR_MODE: mode,
                **self.machine.heuristics,
            }
            try:
                heuristics = self.final(DescriptorKind.ENGINEHEUR, given)
            except UnsupportedError:
                continue
            room = [self._create(DescriptorKind.ENGINECFG) for _ in range(MOST_ENGINES)]
            for config in self.dnn.get(heuristics, A.ENGINEHEUR_RESULTS, room):
                (engine,) = self.dnn.get(
                    config, A.ENGINECFG_ENGINE, [self._create(DescriptorKind.ENGINE)]
                )
                plan = self._plan(config, engine, self._choice(config, engine), refused, workspace)
                if plan is not None:
                    yield plan

    def chosen(
        self, graph: int, choice: PlanChoice, refused: frozenset[Note], workspace: int
    ) -> Plan | None:
        """The plan of an engine that was chosen before; None if the library does not have it any
        more.
        """
        engine_of = {
            A.ENGINE_OPERATION_GRAPH: graph,
            A.ENGINE_GLOBAL_INDEX: choice.engine,
            **self.machine.engine,
        }
        try:
            engine = self.final(DescriptorKind.ENGINE, engine_of)
            knobs = [
                self.final(
                    DescriptorKind.KNOB_CHOICE,
                    {A.KNOB_CHOICE_KNOB_TYPE: knob, A.KNOB_CHOICE_KNOB_VALUE: value},
                )
                for knob, value in choice.knobs
            ]
            config = self.final(
                DescriptorKind.ENGINECFG,
                {
                    A.ENGINECFG_ENGINE: engine,
                    **({A.ENGINECFG_KNOB_CHOICES: knobs} if knobs else {}),
                },
            )
        except UnsupportedError:
            return None
        return self._plan(config, engine, choice, refused, workspace)

    def _choice(self, config: int, engine: int) -> PlanChoice:
        (number,) = self.dnn.get(engine, A.ENGINE_GLOBAL_INDEX, [0])
        room = [self._create(DescriptorKind.KNOB_CHOICE) for _ in range(MOST_KNOBS)]
        knobs = self.dnn.get(config, A.ENGINECFG_KNOB_CHOICES, room)
        of = A.KNOB_CHOICE_KNOB_TYPE, A.KNOB_CHOICE_KNOB_VALUE
        pairs = ([self.dnn.get(knob, attribute, [0])[0] for attribute in of] for knob in knobs)
        return PlanChoice(number, tuple((knob, value) for knob, value in pairs))

    def _plan(
        self, config: int, engine: int, choice: PlanChoice, refused: frozenset[Note], workspace: int
    ) -> Plan | None:
        """None if the engine has a refused note, does not support the graph after all, or needs
        more workspace.
        """
        if refused.intersection(self.dnn.get(engine, A.ENGINE_NUMERICAL_NOTE, [0] * MOST_NOTES)):
            return None
        try:
            plan = self.final(
                DescriptorKind.EXECUTION_PLAN,
                {A.EXECUTION_PLAN_ENGINE_CONFIG: config, **self.machine.plan},
            )
        except UnsupportedError:
            return None
        (needed,) = self.dnn.get(plan, A.EXECUTION_PLAN_WORKSPACE_SIZE, [0])
        return Plan(plan, choice, needed) if needed <= workspace else None

    # ---- descriptors -------------------------------------------------------------------------

    def final(self, kind: DescriptorKind, values: Values) -> int:
        """A finalized descriptor with these attributes."""
        descriptor = self._create(kind)
        for attribute, value in values.items():
            self.dnn.set(descriptor, attribute, value if isinstance(value, Sequence) else (value,))
        self.dnn("cudnnBackendFinalize", descriptor)
        return descriptor

    def _create(self, kind: DescriptorKind) -> int:
        descriptor = self.dnn.create(kind)
        self._made.append(descriptor)
        return descriptor
