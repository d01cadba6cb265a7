"""Signatures of a SavedModel, as functions to compile. Loading one runs its initialisers, so it
counts as code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import nearest

DEFAULT = "serving_default"


def signature_of(
    folder: str | os.PathLike[str], name: str, trusted: bool
) -> tuple[Any, Mapping[str, Any], Sequence[Any]]:
    """A function of the tensors of a signature in the order of their names, the signature's tensor
    specs by name, and the variables of the model. Raises SourceError unless it is `trusted`.
    """
    if not trusted:
        raise SourceError(
            Diagnostic(
                "XL7702",
                f"{os.fspath(folder)} is a SavedModel, which runs code when it is loaded",
                hint="trusted=True loads it, if you trust where it comes from",
            )
        )
    import tensorflow as tf

    try:
        loaded = tf.saved_model.load(os.fspath(folder))
    except Exception as error:  # TensorFlow may raise anything
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise SourceError(
            Diagnostic("XL7702", f"{os.fspath(folder)} is not a SavedModel: {said}")
        ) from error
    known = dict(loaded.signatures)
    if name not in known:
        hint = nearest(name, tuple(known), f"it has: {', '.join(known) or 'none'}")
        raise SourceError(
            Diagnostic("XL7702", f"{os.fspath(folder)} has no signature '{name}'", hint=hint)
        )
    signature = known[name]
    specs = signature.structured_input_signature[1]

    def call(*tensors: Any) -> Any:
        # `loaded` is held, or its variables would be freed
        return signature(**dict(zip(specs, tensors, strict=True))) if loaded is not None else None

    call.__name__ = name
    return call, specs, list(signature.variables)
