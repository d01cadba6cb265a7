"""A trainer's weights as arrays, files and models, LoRA factors merged or separate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.spec.training import ema
from xlac.spec.training.lora import LowRank
from xlac.spec.weights.low_rank_file import METADATA
from xlac.spec.weights.safetensors import SafetensorsFile, TensorSource, write_tensors
from xlac.spec.weights.tensor_files import BadFile
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

PREFIX = "base_model.model."
"""The prefix of the names of factors in files of Hugging Face's PEFT."""


def merged(weights: Mapping[str, Array], factors: Mapping[str, LowRank]) -> dict[str, Array]:
    """The model's own weights, with the product of their LoRA factors added."""
    arrays = dict(weights)
    for name, one in factors.items():
        arrays[name] = one.merged(arrays[name], arrays.pop(one.a.name), arrays.pop(one.b.name))
    return arrays


def write_weights(path: Path, weights: Mapping[str, Array]) -> None:
    """Writes arrays by name as safetensors. Raises OSError."""
    write_tensors(path, {name: _source(array) for name, array in weights.items()})


def write_factors(path: Path, learned: Mapping[str, Array], factors: Mapping[str, LowRank]) -> None:
    """Writes LoRA factors, and other weights that learned, as safetensors. The metadata give, for
    each weight with factors, their rank and scale, and whether the weight is [in, out]
    (`transposed`). Raises OSError.
    """
    described = {
        name: {"rank": one.spec.rank, "scale": one.scale, "transposed": one.flipped}
        for name, one in factors.items()
    }
    tensors = {name: _source(array) for name, array in learned.items()}
    write_tensors(path, tensors, metadata={METADATA: json.dumps(described)})


def factor_files(
    learned: Callable[[str], Mapping[str, Array]], factors: Mapping[str, LowRank], averaged: bool
) -> dict[str, Callable[[Path], None]]:
    """Writers of a run's LoRA files by file name: one of the factors and, where `averaged`, one of
    their averages. `learned` gives the arrays of a prefix of state names. Empty without factors.
    """
    prefixes = {
        "lora.safetensors": "",
        **({"ema_lora.safetensors": ema.PREFIX} if averaged else {}),
    }

    def writing(prefix: str) -> Callable[[Path], None]:
        return lambda path: write_factors(path, learned(prefix), factors)

    return {name: writing(prefix) for name, prefix in prefixes.items()} if factors else {}


def read_factors(
    path: Path, learned: Mapping[str, Type], factors: Mapping[str, LowRank]
) -> dict[str, Array]:
    """The factors of a file of `write_factors` or PEFT, by the names of `learned`. Raises
    SourceError where names, dtypes, shapes or scales differ from the spec's, and OSError.
    """
    try:
        file = SafetensorsFile(path)
        arrays = {name.removeprefix(PREFIX): np.array(file[name]) for name in file}
        described = json.loads(file.metadata.get(METADATA, "{}"))
        scales = {name: float(one["scale"]) for name, one in described.items()}
    except (BadFile, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SourceError(Diagnostic("XL3004", f"{path}: {error}")) from None
    wrong = [f"{name} is unknown" for name in arrays if name not in learned]
    wrong += [
        f"{x.name} is missing"
        for one in factors.values()
        for x in (one.a, one.b)
        if x.name not in arrays
    ]
    for name, array in arrays.items():
        if name in learned and (array.shape, array.dtype) != (
            learned[name].shape,
            learned[name].dtype.numpy,
        ):
            wrong.append(
                f"{name} is {array.dtype}{list(array.shape)}, and the model has {learned[name]}"
            )
    for name, one in factors.items():
        if scales.get(name, one.scale) != one.scale:
            wrong.append(
                f"the factors of {name} are scaled by {scales[name]}, and the spec says {one.scale}"
            )
    if wrong:
        more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise SourceError(
            Diagnostic(
                "XL3020", f"{path} has factors of another model: {', '.join(wrong[:5])}{more}"
            )
        )
    return arrays


def model_of(model: Model, weights: Mapping[str, Array]) -> Model:
    """The model for inference with other weights, without the inputs and weights that only the loss
    needs.
    """
    graph = Graph(model.graph.name, (), model.graph.outputs)
    needed = {node for node in graph.order if not node.inputs}
    names = {n.name for n in needed if n.op.mnemonic == "param" and param(n).kind == "weight"}
    inputs = tuple(n for n in model.graph.inputs if n in needed)
    return replace(
        model,
        graph=replace(graph, inputs=inputs),
        weights={name: weights[name] for name in sorted(names)},
    )


def _source(array: Array) -> TensorSource:
    return TensorSource(Type(DType.of(array.dtype), array.shape), lambda: array)
