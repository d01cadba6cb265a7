"""xlac on its cpu target: a spec compiled in the process, called with the suite's arrays from Python.

Until the importer of ONNX lands, `SPECS` says which spec states a workload; the workload's own arrays replace the
spec's weights, in order.
"""
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import protocol

os.environ.setdefault("XLAC_CACHE", "off")        # compile times are cold
import numpy as np  # noqa: E402
from xlac.compiler import compile, specialized  # noqa: E402
from xlac.sources import load

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Spec:
    file: str
    params: dict = field(default_factory=dict)
    dims: dict = field(default_factory=dict)


def _shape(m, k, n):
    return Spec("bench/specs/matmul_weight.yaml", {"m": m, "k": k, "n": n})


def _conv(channels, size, filters, kernel, stride=1, groups=1):
    return Spec("bench/specs/conv.yaml", {"channels": channels, "size": size, "filters": filters, "kernel": kernel,
                                          "stride": stride, "pad": kernel // 2, "groups": groups})


SPECS = {
    "mlp_small": Spec("specs/mlp_small.yaml"),
    "tagger": Spec("specs/tagger.yaml"),
    **{f"matmul_{n}": Spec("bench/specs/matmul.yaml", {"n": n}) for n in (256, 512, 1024, 2048)},
    "gemv_4096": _shape(1, 4096, 4096),
    "matmul_16x768x3072": _shape(16, 768, 3072),
    "softmax": Spec("specs/softmax.yaml"),
    "bias_relu_softmax": Spec("specs/bias_relu_softmax.yaml"),
    "mul_add_reduce_64k": Spec("specs/mul_add_reduce.yaml", {"n": 64 << 10}),
    "mul_add_reduce_16m": Spec("specs/mul_add_reduce.yaml", {"n": 16 << 20}),
    "elementwise_chain": Spec("specs/elementwise_chain.yaml"),
    "layernorm_gelu": Spec("bench/specs/layernorm_gelu.yaml"),
    "conv_3x3_64": _conv(64, 56, 64, 3),
    "conv_1x1_256_64": _conv(256, 56, 64, 1),
    "conv_7x7s2_3_64": _conv(3, 224, 64, 7, 2),
    "conv_dw3x3_96": _conv(96, 56, 96, 3, groups=96),
    "resnet50": Spec("bench/specs/resnet50.yaml"),
    "mobilenet_v2": Spec("bench/specs/mobilenet_v2.yaml"),
    "bert_layer": Spec("specs/bert_layer.yaml", dims={"batch": 1, "sequence": 128}),
    "gpt2_block_decode": Spec("specs/gpt2_decode.yaml", dims={"batch": 1, "past": 256}),
    "lstm_stack_scan": Spec("bench/specs/lstm_scan.yaml"),
    "lstm_stack_unrolled": Spec("bench/specs/lstm_unrolled.yaml"),
}


def _bound(wanted, arrays):
    """The workload's arrays under the spec's names: both list them in the order of the model's text.

    `linear` keeps its matrix as [out, in], the suite mostly as [in, out]; embeddings agree.
    """
    if len(wanted) != len(arrays):
        raise ValueError(f"the spec has {len(wanted)} weights, the workload {len(arrays)}")
    bound = {}
    for (name, made), array in zip(wanted.items(), arrays.values()):
        linear = array.ndim == 2 and name.endswith(".weight") and not name.endswith("_rows.weight")
        array = np.ascontiguousarray(array.T) if linear or array.shape != made.shape else array
        if array.shape != made.shape:
            raise ValueError(f"{name} is {made.shape}, the workload has {array.shape}")
        bound[name] = array
    return bound


def prepare(task):
    spec = SPECS.get(task.meta["name"])
    if spec is None:
        raise protocol.Unsupported("no spec (training step)")
    model = specialized(load(REPOSITORY / spec.file, params=spec.params, dims=spec.dims))
    model = replace(model, weights=_bound(model.weights, task.arrays("weights")))
    run = compile(model, threads=task.threads)
    inputs = list(task.arrays("inputs").values())
    first = run(*inputs)
    first = list(first.values()) if isinstance(first, dict) else [first]
    return protocol.Prepared(lambda: run(*inputs), lambda: first)


protocol.serve(prepare)
