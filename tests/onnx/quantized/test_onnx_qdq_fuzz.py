"""Random QDQ models beside ONNX's reference evaluator and ONNX Runtime, to the bit."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import qdq_maker
from onnx_cases import reference

import xlac

Array = np.ndarray[Any, Any]

COUNT = int(os.environ.get("XLAC_FUZZ_GRAPHS", "400"))
BATCH = 20


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
@pytest.mark.sampled(40)
def test_random_models_agree(first: int) -> None:
    for seed in range(first, first + BATCH):
        proto, given = qdq_maker.make(Random(seed))
        target = ("cpu", "cpu", "reference", "c")[seed % 4]
        wanted = reference(proto, given)
        found = list(xlac.compile(proto, target)(**given).values())
        for number, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            np.testing.assert_array_equal(ours, theirs, f"seed {seed}, {target}, {number}")
        runtime = plain_runtime(proto.SerializeToString(), given)
        for ours, theirs in zip(found, runtime or found, strict=True):
            np.testing.assert_array_equal(ours, theirs, f"seed {seed}, {target}: ONNX Runtime")


def plain_runtime(proto: bytes, given: dict[str, Array]) -> list[Array] | None:
    """What ONNX Runtime gives of the model as it is; None where it is not installed. Its integer
    kernels saturate sums of two products on processors without VNNI, so they are not asked.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return list(onnxruntime.InferenceSession(proto, options).run(None, given))
