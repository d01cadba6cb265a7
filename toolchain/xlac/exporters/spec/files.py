"""Writes a spec and its weights to files: both or neither, copying one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from xlac.exporters.spec.document import text
from xlac.exporters.spec.learned import everything, is_weight
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import Const, param
from xlac.spec.weights.safetensors import TensorSource, write_tensors
from xlac.support.whole_files import replacing, together
from xlac_sdk.dtypes import DType

INLINE = 16  # elements of a constant up to which it is written inline


def write(
    model: Model, file: Path, progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Writes `file` and, where the model has tensors to keep, a .safetensors file of the same name
    beside it.

    Weights are read one after another and never held together. `progress` gets the bytes written
    and those in all. Both files appear whole or not at all, replacing what is there. Raises
    UnsupportedError for a model that no spec can say.
    """
    tensors: dict[str, TensorSource] = {}
    for node in everything(model.graph):
        if is_weight(node):
            name = param(node).name
            tensors[name] = TensorSource(node.type, lambda name=name: model.weights[name])  # type: ignore[misc]

    def keep(name: str, value: Array) -> bool:
        if value.size <= INLINE or Const(value).uniform is not None or name in tensors:
            return False
        tensors[name] = TensorSource(Type(DType.of(value.dtype), value.shape), lambda: value)
        return True

    data = file.with_suffix(".safetensors")
    whole = text(model, keep=keep, weights=lambda: data.name if tensors else "")
    if not tensors:
        with replacing(file) as temporary:
            temporary.write_text(whole, encoding="utf-8")
        return [file]
    with together(data, file) as (temporary, spec):
        write_tensors(temporary, tensors, progress)
        spec.write_text(whole, encoding="utf-8")
    return [file, data]
