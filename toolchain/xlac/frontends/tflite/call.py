"""One operator of a TensorFlow Lite model, as seen by its builder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlac.frontends.known import DataDependent
from xlac.frontends.tflite.file.flatbuffer import FlatBufferTable
from xlac.frontends.tflite.file.schema import schema
from xlac.frontends.tflite.file.tensors import TensorInfo
from xlac.frontends.tflite.quantization import centred, dequantized, quantized, scaled
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.frontends.tflite.importer import TFLiteImporter


BOUNDS = {
    "NONE": (-np.inf, np.inf), "RELU": (0.0, np.inf), "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}  # fmt: skip
"""The bounds of each clamping activation."""


@dataclass(frozen=True, slots=True)
class TFLiteCall:
    """The inputs (None where omitted), outputs and options of one operator.

    Builders that compute on real numbers take inputs by `real` and return results by `give`: both
    convert quantized tensors.
    """

    operator: str
    inputs: tuple[TensorInfo | None, ...]
    values: tuple[Node | None, ...]
    outputs: tuple[TensorInfo, ...]
    options: FlatBufferTable | None
    table: str  # the name of the options' table in the schema
    importer: TFLiteImporter
    within: tuple[int, ...] = ()  # the tensors that say how values inside it are quantized

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> Node:
        """The input `number`, which is required."""
        node = self.get(number)
        if node is None:
            raise ShapeError(f"input {number} is missing")
        return node

    def __iter__(self) -> Iterator[Node]:
        """All inputs, each of which is required."""
        return (self[number] for number in range(len(self)))

    def get(self, number: int) -> Node | None:
        """The input `number` as stored; None if omitted."""
        return self.values[number] if number < len(self.values) else None

    def info(self, number: int) -> TensorInfo:
        """The file's description of the input `number`, which is required."""
        info = self.inputs[number] if number < len(self.inputs) else None
        if info is None:
            raise ShapeError(f"input {number} is missing")
        return info

    def out(self, number: int = 0) -> TensorInfo:
        """The file's description of the output `number`, which is required."""
        if number >= len(self.outputs):
            raise ShapeError(f"output {number} is missing")
        return self.outputs[number]

    def between(self, number: int) -> TensorInfo:
        """The file's description of a value inside the operator, which is required."""
        if number >= len(self.within):
            raise ShapeError(f"the scale of its intermediate value {number} is missing")
        return self.importer.tensor(self.within[number])

    def real(self, number: int) -> Node:
        """The input `number`, dequantized where it is quantized."""
        return dequantized(self[number], self.info(number).quantization)

    def rescaled(
        self, factor: float = 1.0, number: int = 0, computed: type = np.float64
    ) -> Node | None:
        """Input `number` times a factor, in the output's quantization, where both have a single
        scale; else None. The type is that in which the kernel computes the ratio of the scales.
        """
        before, after = self.info(number).quantization, self.out().quantization
        if before is None or after is None or not before.single or not after.single:
            return None
        if self[number].type.dtype.is_float or self.out().dtype is None:
            return None
        ratio = before.scales.astype(computed) * computed(factor) / after.scales
        x = centred(self[number], before)
        return scaled(x, ratio.reshape(()), self.out(), most=1 << min(31, x.type.dtype.bits))

    def give(self, x: Node, number: int = 0) -> Node:
        """Numbers converted to the type of the output `number`: quantized if it is."""
        return quantized(x, self.out(number))

    def option(self, name: str) -> Any:
        """An option, or its default in the schema."""
        fields = schema().tables[self.table]
        if self.options is None:
            field = fields[name]
            return [] if field.many else field.default
        if self.options.name != self.table:
            raise ShapeError(f"its options are {self.options.name}, not {self.table}")
        return self.options[name]

    def chosen(self, name: str, enum: str) -> str:
        """An option as the name of its value in an enumeration of the schema."""
        number = self.option(name)
        values = schema().enums[enum]
        if number not in values:
            raise ShapeError(f"option {name} is {number}, which {enum} does not have")
        return values[number]

    @property
    def activation(self) -> str:
        """The fused activation, a name of ActivationFunctionType; NONE without one."""
        if "fused_activation_function" not in schema().tables.get(self.table, {}):
            return "NONE"
        return self.chosen("fused_activation_function", "ActivationFunctionType")

    def activated(self, x: Node) -> Node:
        """Real numbers after the fused activation."""
        name = self.activation
        if name == "TANH":
            return build.apply1("tanh", x)
        if name not in BOUNDS:
            self.fail(f"the activation {name} is not supported")
        low, high = BOUNDS[name]
        x = x if low == -np.inf else build.maximum(x, low)
        return x if high == np.inf else build.minimum(x, high)

    def value(self, number: int) -> Array:
        """The value of an input, which must be known at import."""
        array = self.importer.known.array(self[number])
        if array.dtype == object:
            raise DataDependent(
                f"input {number} depends on a symbolic size, and must be a number here"
            )
        return array

    def ints(self, number: int) -> list[int]:
        """The value of an integer input as a list."""
        return [int(v) for v in np.asarray(self.value(number)).reshape(-1)]

    def dims(self, number: int) -> tuple[Dim, ...]:
        """An integer input of rank 0 or 1 as sizes, which may be symbolic."""
        return self.importer.known.dims(self[number])

    def dtype(self, number: int = 0) -> DType:
        """The element type of an output."""
        info = self.out(number)
        if info.dtype is None:
            self.fail(f"output '{info.name}' is of type {info.kind}")
        return info.dtype

    def type_of(self, info: TensorInfo | None = None) -> Type:
        """The type of a tensor as stated in the file; by default of the first output."""
        info = self.out() if info is None else info
        if info.dtype is None:
            self.fail(f"'{info.name}' is of type {info.kind}")
        return Type(info.dtype, info.shape)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """Fails the import of this operator; the error adds its name and place."""
        raise ShapeError(message, hint=hint)
