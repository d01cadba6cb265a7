"""Signatures of a SavedModel, as functions to compile and as models. Loading one runs its
initialisers, so it counts as code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xlac.frontends.importing.model_inputs import ModelInputs
from xlac.frontends.sizes import DimValue
from xlac.frontends.tensorflow.lowered import lowered
from xlac.frontends.tensorflow.saved_graph import DEFAULT, SavedGraph
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops.walks import substituted
from xlac.support.extras import needed
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError


def load(
    source: Path,
    *,
    dims: Mapping[str, DimValue] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
    signature: str = "",
    trusted: bool = False,
) -> Model:
    """A signature of a SavedModel as a model: inputs and outputs are called as the signature calls
    them, variables are weights or state.

    `dims` gives the sizes that it leaves open: TensorFlow exports known ones. `params` fixes inputs
    to values. Raises SourceError as `signature_of`, and for a size that is not given.
    """
    call, specs, variables = signature_of(source, signature or DEFAULT, trusted)
    inputs = ModelInputs(dims or {}, params or {})
    inputs.check(tuple(specs))
    fixed = _fixed(specs, inputs)
    made = lowered(call, tuple(fixed.values()), variables)
    model = made.model()
    graph = model.graph
    nodes = [
        inputs.node(name, DType.of(spec.dtype.as_numpy_dtype), tuple(spec.shape))
        for name, spec in fixed.items()
    ]
    change = dict(zip(graph.inputs[: len(nodes)], nodes, strict=True))
    values = substituted(list(graph.outputs.values()), change)
    results = sorted(made.gives)  # in the order in which TensorFlow flattens a dictionary
    names = [*results, *list(graph.outputs)[len(results) :]]
    held = graph.inputs[len(nodes) :]
    named = Graph(Path(source).name, (*inputs.nodes, *held), dict(zip(names, values, strict=True)))
    return replace(model, graph=named)


def _fixed(specs: Mapping[str, Any], inputs: ModelInputs) -> dict[str, Any]:
    """Tensor specs without open sizes. Raises SourceError."""
    import tensorflow as tf

    fixed: dict[str, Any] = {}
    open_sizes: dict[str, None] = {}
    for name, spec in specs.items():
        if spec.shape.rank is None:
            problem = f"input '{name}' may have any number of axes"
            raise SourceError(
                Diagnostic("XL7702", problem, hint="give an example to xlac.from_saved_model")
            )
        shape = [
            inputs.size(name, axis) if size is None else size
            for axis, size in enumerate(spec.shape)
        ]
        open_sizes |= {str(size): None for size in shape if not isinstance(size, int)}
        fixed[name] = spec if open_sizes else tf.TensorSpec(shape, spec.dtype, name)
    if open_sizes:
        raise SourceError(
            Diagnostic(
                "XL7702",
                f"sizes are open ({', '.join(open_sizes)}), and TensorFlow exports known ones",
                hint=f"give them: {' '.join(f'--dim {name}=1' for name in open_sizes)}",
            )
        )
    return fixed


def signature_of(
    folder: str | os.PathLike[str], name: str, trusted: bool
) -> tuple[Any, Mapping[str, Any], Sequence[Any]]:
    """A function of the tensors of a signature in the order of their names, the signature's tensor
    specs by name, and the variables of the model.

    Raises SourceError for a signature that it lacks, with every operation that is known not to be
    supported, and unless it is `trusted`: until then TensorFlow is not imported.
    """
    saved = SavedGraph(Path(folder))
    known = saved.signature(name)
    saved.check(known)
    if not trusted:
        raise SourceError(
            Diagnostic(
                "XL7702",
                f"{os.fspath(folder)} is a SavedModel, which runs code when it is loaded; its "
                f"signature is {known}",
                hint="if you trust where it comes from: --trusted, or trusted=True of "
                "xlac.from_saved_model",
            )
        )
    with needed(f"'{Path(folder).name}'"):
        import tensorflow as tf

    try:
        loaded = tf.saved_model.load(os.fspath(folder))
    except Exception as error:  # TensorFlow may raise anything
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise SourceError(
            Diagnostic("XL7702", f"{os.fspath(folder)} cannot be loaded: {said}")
        ) from error
    signature = loaded.signatures[name]
    specs = signature.structured_input_signature[1]

    def call(*tensors: Any) -> Any:
        # `loaded` is held, or its variables would be freed
        return signature(**dict(zip(specs, tensors, strict=True))) if loaded is not None else None

    call.__name__ = name
    return call, specs, list(signature.variables)
