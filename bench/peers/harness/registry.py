"""The contenders: which interpreter runs which adapter with which options.

To add one, write an adapter (see contenders/protocol.py) and add a line here.
"""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

SUITE = Path(__file__).resolve().parent.parent
VENVS = Path(os.environ.get("SUITE_VENVS", SUITE.parent / ".venvs"))


@dataclass(frozen=True)
class Contender:
    name: str
    venv: str
    adapter: str
    options: tuple[str, ...] = ()
    only: frozenset[str] = field(default=frozenset())        # empty: every workload
    skip: frozenset[str] = field(default=frozenset())

    def command(self, folder: Path, threads: int) -> list[str]:
        python = VENVS / self.venv / "bin" / "python"
        options = [x for o in self.options for x in ("--option", o)]
        return [str(python), str(SUITE / "contenders" / f"{self.adapter}_adapter.py"), str(folder), "--threads", str(threads), *options]

    def runs(self, workload: str) -> bool:
        return workload not in self.skip and (not self.only or workload in self.only)


# AOTInductor compiles slowly; measured where per-call overhead or the whole model matters.
_AOTI = frozenset({"mlp_small", "tiny_ops_150", "tagger", "lstm_stack_unrolled", "lstm_stack_scan", "mul_add_reduce_64k", "layernorm_gelu",
                   "gpt2_block_decode", "bert_layer", "resnet50"})

CONTENDERS = {c.name: c for c in [
    Contender("xlac", "xlac", "xlac"),
    Contender("jax", "jax", "jax"),
    Contender("jax_const", "jax", "jax", ("weights=constant",)),
    Contender("onnxruntime", "ort", "onnxruntime"),
    Contender("openvino", "openvino", "openvino"),
    Contender("torch_eager", "torch", "torch", ("mode=eager",)),
    Contender("torch_inductor", "torch", "torch", ("mode=inductor",)),
    Contender("torch_aoti", "torch", "torch", ("mode=aoti",), only=_AOTI),
    Contender("iree", "iree", "iree"),
    Contender("tvm", "tvm", "tvm", skip=frozenset({"matmul_2048"})),        # untuned: half a minute per call
    Contender("tinygrad", "tinygrad", "tinygrad", ("renderer=CLANG",)),
]}
