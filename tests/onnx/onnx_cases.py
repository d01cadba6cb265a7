"""Small ONNX models for tests, and what ONNX's reference evaluator makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import xlac
from xlac.ir.op import Array

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name: str, shape: Sequence[int | str] | None, dtype: int = FLOAT) -> Any:
    """A declared input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[str, Array] | None = None,
    version: int = 21,
    functions: Sequence[Any] = (),
    **domains: int,
) -> ModelProto:
    """A model; `domains` are other operator sets, with _ for a dot."""
    held = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), held)
    sets = [
        helper.make_opsetid("", version),
        *(helper.make_opsetid(d.replace("_", "."), v) for d, v in domains.items()),
    ]
    return helper.make_model(graph, opset_imports=sets, functions=list(functions))


def single(
    operator: str,
    arrays: Sequence[Array],
    outputs: int = 1,
    version: int = 21,
    domain: str = "",
    **attributes: Any,
) -> ModelProto:
    """A model of one node whose inputs x0, x1, … are like the given arrays; its outputs are y0, y1,
    …
    """
    names = [f"x{n}" for n in range(len(arrays))]
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)
    inputs = [
        value(n, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype))
        for n, a in zip(names, arrays, strict=True)
    ]
    kinds = [helper.make_value_info(n, helper.make_tensor_type_proto(FLOAT, None)) for n in results]
    return model(
        [node], inputs, kinds, version=version, **({domain.replace(".", "_"): 1} if domain else {})
    )


def reference(proto: ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
    """What ONNX's reference evaluator gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(ReferenceEvaluator(proto).run(None, dict(inputs)))


def ours(proto: ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
    """What the compiled model gives, in the order of its outputs."""
    found = xlac.compile(proto)(**inputs)
    return list(found.values()) if isinstance(found, dict) else [found]


def agree(
    proto: ModelProto, inputs: Mapping[str, Array], rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Both give the same, also in type and shape."""
    for mine, wanted in zip(ours(proto, inputs), reference(proto, inputs), strict=True):
        wanted = np.asarray(wanted)
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(mine, wanted, rtol=rtol, atol=atol)
