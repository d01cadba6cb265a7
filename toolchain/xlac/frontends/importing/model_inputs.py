"""The inputs of a model whose format does not name sizes: Keras, TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xlac.frontends.sizes import DimValue, Symbols, plain
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, Origin, SourceError
from xlac_sdk.support.choices import nearest


class ModelInputs:
    """Builds the inputs of a model: parameters, collected in `nodes`, or constants where `params`
    gives their values. `dims` fixes or bounds open sizes, which `sizes` holds.
    """

    def __init__(self, dims: Mapping[str, DimValue], params: Mapping[str, object]) -> None:
        self.params = params
        self.sizes = Symbols(dims)
        self.nodes: list[Node] = []

    def check(self, names: Sequence[str]) -> None:
        """Raises SourceError where `params` has a value for an input that is not in `names`."""
        for name in self.params:
            if name not in names:
                raise no_input(name, names)

    def size(self, name: str, axis: int) -> Dim:
        """An open size of the input `name`: the first axis of every input is the batch."""
        return self.sizes["batch" if axis == 0 else f"{plain(name)}_{axis}"]

    def node(self, name: str, dtype: DType, shape: Sequence[Dim]) -> Node:
        """An input as a parameter of the graph, or as the constant that `params` gives."""
        if name in self.params:
            return build.constant(np.asarray(self.params[name]), dtype)
        node = build.param(name, dtype, tuple(shape), origin=Origin(name))
        self.nodes.append(node)
        return node


def no_input(name: str, inputs: Sequence[str]) -> SourceError:
    """The error for a value that is set for an input which the model does not have."""
    hint = nearest(name, inputs, f"the model has: {', '.join(inputs)}")
    return SourceError(Diagnostic("XL2015", f"there is no input '{name}' to set", hint=hint))
