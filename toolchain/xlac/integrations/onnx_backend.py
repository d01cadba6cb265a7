"""ONNX's backend interface: `import xlac.onnx_backend as backend;
backend.run_model(model, inputs)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlac.support.extras import needed

with needed("xlac.onnx_backend"):
    from onnx import ModelProto, NodeProto, TensorProto, TypeProto, defs, helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from xlac.api import compile
from xlac.frontends.onnx.file.dtypes import CODED
from xlac_sdk.host.call_binding import Parameters, by_name


class XlacRep(BackendRep):
    """A compiled model: `run` takes a list of inputs in order, or a dict by name, and returns a
    named tuple.
    """

    def __init__(self, model: ModelProto, target: str, **options: Any) -> None:
        held = {tensor.name for tensor in model.graph.initializer}
        self.inputs = {info.name: info.type for info in model.graph.input if info.name not in held}
        self.outputs = {info.name: info.type for info in model.graph.output}
        self.program = compile(model, target, **options)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model on inputs by position or by name; outputs as a named tuple."""
        arrays, named = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
        given = by_name(Parameters(tuple(self.inputs)), arrays, named)
        returned = self.program(**{name: _codes(value) for name, value in given.items()})
        results = returned if len(self.outputs) > 1 else {next(iter(self.outputs)): returned}
        values = [_numbers(results[name], kind) for name, kind in self.outputs.items()]
        return tuple(namedtupledict("Outputs", list(self.outputs))(*values))


class XlacBackend(Backend):
    """Runs models and nodes by compiling them. `device` must be CPU; `target` is any installed
    backend of xlac.
    """

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether programs of this backend run on a device: on CPU only."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):  # ONNX has no such kind of device
            return False

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> XlacRep:
        """Compiles a model. `kwargs` are options of `xlac.compile`. Raises SourceError, and
        ValueError for a device other than CPU.
        """
        if not cls.supports_device(device):
            raise ValueError(f"xlac.onnx_backend runs on CPU, not on {device}")
        return XlacRep(model, kwargs.pop("target", "cpu"), **kwargs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Runs one node on a list of arrays, by the newest operator set or `opset_version`."""
        version = kwargs.pop("opset_version", defs.onnx_opset_version())
        arrays = [np.asarray(value) for value in inputs]
        given = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip([n for n in node.input if n], arrays, strict=True)
        ]
        wanted = [helper.make_value_info(name, TypeProto()) for name in node.output if name]
        graph = helper.make_graph([node], "node", given, wanted)
        sets = [
            helper.make_opsetid(node.domain, 1 if node.domain else version),
            *([helper.make_opsetid("", version)] if node.domain else []),
        ]
        return cls.prepare(helper.make_model(graph, opset_imports=sets), device, **kwargs).run(
            arrays
        )


def _codes(value: Any) -> Any:
    """Arrays of types that NumPy lacks (float8, int4, …) as arrays of their codes, which xlac
    takes.
    """
    if isinstance(value, list | tuple):
        return [_codes(part) for part in value]
    number = (
        0
        if not isinstance(value, np.ndarray) or value.dtype.isbuiltin == 1
        else helper.np_dtype_to_tensor_dtype(value.dtype)
    )
    if number not in CODED:
        return value
    dtype = CODED[number][1].numpy
    return value.astype(dtype) if "int" in value.dtype.name else value.view(dtype)


def _numbers(value: Any, kind: TypeProto) -> Any:
    """An array of codes as an array of the ONNX type, as callers expect."""
    number = kind.tensor_type.elem_type
    if number not in CODED or not isinstance(value, np.ndarray):
        return value
    dtype = helper.tensor_dtype_to_np_dtype(number)
    whole = number in (TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.UINT2)
    return value.astype(dtype) if whole else value.view(dtype)


is_compatible = XlacBackend.is_compatible
prepare = XlacBackend.prepare
run_model = XlacBackend.run_model
run_node = XlacBackend.run_node
supports_device = XlacBackend.supports_device

__all__ = [
    "XlacBackend",
    "XlacRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
