"""Random models of one operator with windows, and what judges them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from one_node import Array, backend, helper, onnx, ort

SETTINGS = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def model(
    op: str,
    inputs: dict[str, Array | None],
    version: int,
    outputs: int = 1,
    held: frozenset[str] = frozenset(),
    **attributes: Any,
) -> Any:
    """A model of one node; the inputs in `held` are constants."""
    present = {name: x for name, x in inputs.items() if x is not None}
    results = [f"out{n}" for n in range(outputs)]
    node = helper.make_node(
        op, [name if x is not None else "" for name, x in inputs.items()], results, **attributes
    )
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in present.items()
        if n not in held
    ]
    constants = [onnx.numpy_helper.from_array(x, n) for n, x in present.items() if n in held]
    kinds = [1, 7][:outputs]
    wanted = [
        helper.make_tensor_value_info(n, k, None) for n, k in zip(results, kinds, strict=True)
    ]
    graph = helper.make_graph([node], "g", infos, wanted, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)


def runtime(made: Any, feeds: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    found: list[Array] = ort.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    ).run(None, feeds)
    return found


def reference(made: Any, feeds: dict[str, Array]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    found: list[Array] = ReferenceEvaluator(made).run(None, feeds)
    return found


def check(
    made: Any, feeds: dict[str, Array], wanted: list[Array], rtol: float = 1e-4, atol: float = 1e-5
) -> None:
    for expected, found in zip(wanted, backend.prepare(made).run(feeds), strict=True):
        assert expected.shape == found.shape, (expected.shape, found.shape, made.graph.node[0])
        np.testing.assert_allclose(
            found, expected, rtol=rtol, atol=atol, err_msg=str(made.graph.node[0])
        )


@st.composite
def windows(draw: Any, most: int = 3) -> dict[str, Any]:
    """Kernel, strides, dilations and padding over one to `most` axes, and sizes that they fit."""
    rank = draw(st.integers(1, most))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, strides, dilations = each(1, 3), each(1, 3), each(1, 2)
    spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    pads = [
        draw(st.integers(0, min(s, k - 1)))
        for _ in range(2)
        for s, k in zip(spans, kernel, strict=True)
    ]
    sizes = [s + 1 + extra for s, extra in zip(spans, each(0, 6), strict=True)]
    return {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "sizes": sizes,
        "auto": draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])),
    }


def placing(at: dict[str, Any]) -> dict[str, Any]:
    pads = {"pads": at["pads"]} if at["auto"] == "NOTSET" else {"auto_pad": at["auto"]}
    return {"kernel_shape": at["kernel"], "strides": at["strides"], **pads}


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
