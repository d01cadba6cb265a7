"""Quantized networks of convolutions keep bytes in memory: what is computed as floats between two
of them is quantized before it is stored, pooled or joined, and their image is read as it comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx_cases import reference

import xlac
from xlac import driver
from xlac.frontends.loader import load
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.kernel import Load, Ramp, Store, statements
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.target import Request

Array = np.ndarray[Any, Any]
MAPS = 1 << 10  # bytes: smaller slots are no maps


class Network:
    """A chain of ONNX operators between QuantizeLinear and DequantizeLinear. Scales are powers of
    two, so that results are exact.
    """

    def __init__(self, *image: int) -> None:
        self.rng, self.image = np.random.default_rng(5), image
        self.nodes: list[Any] = []
        self.held: dict[str, Array] = {}

    def hold(self, array: Any, dtype: Any) -> str:
        name = f"c{len(self.held)}"
        self.held[name] = np.asarray(array, dtype)
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def rounded(self, x: str, scale: float = 0.25, zero: int = 0) -> str:
        given = [self.hold(scale, np.float32), self.hold(zero, np.uint8)]
        narrow = self.node("QuantizeLinear", x, *given)
        return self.node("DequantizeLinear", narrow, *given)

    def weight(self, *shape: int, axis: int = 0) -> str:
        values = self.rng.integers(-3, 4, shape)
        scales = 2.0 ** self.rng.integers(-4, -1, shape[axis])
        given = [self.hold(values, np.int8), self.hold(scales, np.float32)]
        return self.node("DequantizeLinear", *given, axis=axis)

    def conv(self, x: str, *shape: int, zero: int = 0, **attributes: Any) -> str:
        y = self.node("Conv", x, self.weight(*shape), kernel_shape=shape[2:], **attributes)
        return self.rounded(self.node("Relu", y), zero=zero)

    def made(self, y: str) -> Any:
        data = [numpy_helper.from_array(value, name) for name, value in self.held.items()]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.image)
        out = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [out], data)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def checked(network: Network, y: str) -> Program:
    """The program of a processor that multiplies bytes. Results of this one are those of ONNX's
    definition, and its maps are bytes too, or i16 where it multiplies those.
    """
    made = network.made(y)
    x = (network.rng.integers(-200, 200, network.image) / 16).astype(np.float32)
    found = xlac.compile(made, "cpu")(x=x)
    np.testing.assert_array_equal(np.asarray(found), reference(made, {"x": x})[0])
    own, of_bytes = (
        driver.lower(load(made), find("cpu").target(Request(cpu=cpu))).program
        for cpu in ("", "cascadelake")
    )
    assert {slot.dtype for slot in maps(own)} <= {DType.U8, DType.I16}
    return of_bytes


def maps(program: Program) -> list[Any]:
    """Values between kernels."""
    return [s for s in program.slots if s.role is Role.TEMPORARY and s.nbytes >= MAPS]


def assert_maps_are_bytes(program: Program) -> None:
    assert maps(program)
    assert {slot.dtype for slot in maps(program)} == {DType.U8}
    for kernel in program.kernels:
        for one in statements(kernel.body):
            for each in walk(list(roots(one))):
                assert not _gathers(each), kernel.name


def _gathers(one: Any) -> bool:
    """Whether lanes are loaded one by one, but from a table of bytes."""
    apart = isinstance(one, Load) and one.index.lanes > 1 and not isinstance(one.index, Ramp)
    return apart and one.buffer.size != 256


@pytest.mark.parametrize("around", [(0, 0), (1, 2)])
@pytest.mark.parametrize("zero", [0, 125])
def test_an_image_is_quantized_as_it_is_brought_to_pixels(
    around: tuple[int, int], zero: int
) -> None:
    """One kernel reads three planes and stores whole vectors of pixels of four bytes."""
    network = Network(1, 3, 20, 32)
    pads = [around[0]] * 2 + [around[1]] * 2
    x = network.rounded("x", zero=zero)
    y = network.conv(x, 16, 3, 3, 3, strides=[2, 2], pads=pads)
    program = checked(network, network.conv(y, 8, 16, 1, 1))
    assert_maps_are_bytes(program)
    (reader,) = [
        kernel
        for kernel in program.kernels
        if any(p.dtype is DType.F32 and p.size == 3 * 20 * 32 for p in kernel.parameters)
    ]
    for one in statements(reader.body):
        for each in walk(list(roots(one))):
            assert not isinstance(each, Load) or each.lanes == 1 or not _strided(each.index)
        assert not isinstance(one, Store) or not _strided(one.index)


def _strided(index: Any) -> bool:
    return isinstance(index, Ramp) and index.stride != 1


def test_bytes_are_pooled_and_joined() -> None:
    """Maxima, concatenations of two scales, and what is read twice."""
    network = Network(1, 4, 26, 26)
    y = network.conv(network.rounded("x", zero=100), 16, 4, 3, 3)
    y = network.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = network.rounded(y)
    one, two = network.conv(y, 8, 16, 1, 1), network.conv(y, 8, 16, 3, 3, pads=[1] * 4)
    joined = network.rounded(network.node("Concat", one, two, axis=1), 0.5)
    again = network.conv(joined, 128, 16, 3, 3, pads=[1] * 4)
    again = network.conv(again, 16, 128, 3, 3, pads=[1] * 4)
    y = network.rounded(network.node("Add", joined, again))
    assert_maps_are_bytes(checked(network, network.rounded(network.conv(y, 4, 16, 1, 1))))


@pytest.mark.parametrize("zero", [0, 100])
@pytest.mark.parametrize(
    ("kernel", "padding", "more"), [(4, 1, 0), (3, 1, 1), (2, 0, 0), (3, 0, 0)]
)
def test_transposed_convolutions_multiply_bytes(
    zero: int, kernel: int, padding: int, more: int
) -> None:
    """In phases, whatever the zero point of their input: no gap is multiplied or stored."""
    network = Network(1, 8, 9, 11)
    y = network.conv(network.rounded("x", zero=100), 16, 8, 1, 1, zero=zero)
    w = network.weight(16, 12, kernel, kernel, axis=1)
    y = network.node(
        "ConvTranspose",
        y,
        w,
        kernel_shape=[kernel] * 2,
        strides=[2, 2],
        pads=[padding] * 4,
        output_padding=[more] * 2,
    )
    program = checked(network, network.conv(network.rounded(y, 0.5, 7), 4, 12, 1, 1))
    assert_maps_are_bytes(program)
    assert sum("phase" in kernel.name for kernel in program.kernels) == 4


def test_sums_are_stored_as_whole_registers_of_bytes() -> None:
    """Four vectors of sums are one of bytes, in a tile that is unrolled and in a loop over rows."""
    network = Network(1, 4, 12, 12)
    y = network.conv(network.rounded("x"), 128, 4, 3, 3)
    y = network.conv(y, 64, 128, 1, 1)
    again = network.node("Conv", y, network.weight(64, 64, 1, 1), kernel_shape=[1, 1])
    y = network.rounded(network.node("Add", y, network.rounded(again, 0.5, 9)))
    made = load(network.made(network.conv(y, 4, 64, 1, 1)))
    program = driver.lower(made, find("cpu").target(Request(cpu="cascadelake"))).program
    for kernel in program.kernels:
        if kernel.name.startswith("conv") and kernel.parameters[-1].dtype is DType.U8:
            lanes = [
                max(one.value.lanes, one.index.lanes)
                for one in statements(kernel.body)
                if isinstance(one, Store) and one.buffer.dtype is DType.U8
            ]
            assert not lanes or max(lanes) == 64 or "pad" in kernel.name, kernel.name
