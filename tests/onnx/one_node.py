"""Models of one node, run by ONNX Runtime and by xlac."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from onnx import helper

import xlac.integrations.onnx_backend as backend

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int, dtype: type = np.uint8) -> Array:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def scalar(value: float, dtype: type = np.float32) -> Array:
    return np.asarray(value, dtype)


def made(op: str, inputs: list[Array | None], outputs: int, domain: str, **attributes: Any) -> Any:
    """A model of one node."""
    names = ["" if x is None else f"x{n}" for n, x in enumerate(inputs)]
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(f"x{n}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in enumerate(inputs)
        if x is not None
    ]
    graph = helper.make_graph(
        [node], "g", infos, [onnx.ValueInfoProto(name=name) for name in results]
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


def both(
    op: str,
    inputs: list[Array | None],
    outputs: int = 1,
    domain: str = "com.microsoft",
    **attributes: Any,
) -> list[tuple[Array, Array]]:
    """What ONNX Runtime and xlac give."""
    model = made(op, inputs, outputs, domain, **attributes)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = {f"x{n}": x for n, x in enumerate(inputs) if x is not None}
    wanted = session.run(None, given)
    for info, tensor in zip(model.graph.output, session.get_outputs(), strict=True):
        kind = helper.np_dtype_to_tensor_dtype(
            next(
                w.dtype
                for w, t in zip(wanted, session.get_outputs(), strict=True)
                if t.name == tensor.name
            )
        )
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, None))
    found = backend.prepare(model).run(given)
    return list(zip(wanted, [np.asarray(f) for f in found], strict=True))


def agree(
    op: str,
    inputs: list[Array | None],
    outputs: int = 1,
    domain: str = "com.microsoft",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    **attributes: Any,
) -> None:
    for wanted, found in both(op, inputs, outputs, domain, **attributes):
        assert wanted.shape == found.shape and wanted.dtype == found.dtype
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


def exact(op: str, inputs: list[Array | None], apart: int = 0, **attributes: Any) -> None:
    """Whole numbers agree; those that a rounding of floats decides may be `apart`, and most are
    not.
    """
    for wanted, found in both(op, inputs, **attributes):
        assert wanted.shape == found.shape and wanted.dtype == found.dtype
        gap = np.abs(wanted.astype(np.int64) - found.astype(np.int64))
        assert gap.max(initial=0) <= apart
        assert (gap > 0).sum() <= 0.02 * gap.size


def run(op: str, inputs: list[Array | None], outputs: int = 1, **attributes: Any) -> Any:
    given = [x for x in inputs if x is not None]
    found = backend.prepare(made(op, inputs, outputs, "com.microsoft", **attributes)).run(given)
    return found[0] if outputs == 1 else found
