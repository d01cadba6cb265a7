"""What the GPU benchmark measures: one neutral definition a workload, in the words of every
contender.

A workload states its operands, its model as a spec, the same mathematics as functions of PyTorch
and JAX, and in float64 NumPy. `least_bytes` and `flops` are what the mathematics cannot do without.
Sizes come in two scales: "full" runs well past the caches of an H200, "small" proves on any machine
that all say the same. Whole models are those of the peers' suite (`../peers/workloads`), which xlac
reads as ONNX.
"""

from __future__ import annotations

from collections.abc import Iterator

from memory_bound import memory_bound
from products import attentions, matmuls
from workload import Workload


def models() -> Iterator[Workload]:
    """Whole models of the peers' suite, weights included; the same at both scales."""
    # bench/peers, which `contenders` puts on the path
    from workloads import convolution, dense, transformer

    for make in (
        dense.mlp_small,
        transformer.bert_layer,
        transformer.gpt2_block_decode,
        convolution.resnet50,
    ):
        one = make()
        yield Workload(
            one.name, "model", {}, "", one.torch, one.jax, one.reference, one.flops, 1e-3, model=one
        )


def all_of(small: bool, families: frozenset[str]) -> Iterator[Workload]:
    """The workloads of some families, in the order of the report."""
    makers = {
        "memory": lambda: memory_bound(small),
        "matmul": lambda: matmuls(small),
        "attention": lambda: attentions(small),
        "model": models,
    }
    for family, maker in makers.items():
        if family in families:
            yield from maker()
