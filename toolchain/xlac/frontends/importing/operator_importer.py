"""What importers of models that list operators share: constants, values known at import, and how
problems are reported.
"""

from __future__ import annotations

from dataclasses import replace

from xlac.frontends.importing.model_importer import ModelImporter
from xlac.frontends.known import DataDependent, Known, NeedsValue
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.source import Diagnostic, LimitError, SourceError

INLINE_BYTES = 1024  # smaller constants become constants of the graph, larger ones weights


class UnsupportedOperator(ShapeError):
    """An operator that no builder is registered for."""


class OperatorImporter(ModelImporter):
    """State shared by all operators of one model. A kind of file says its diagnostics' codes."""

    unsupported_code: str  # the diagnostic of an operator that no builder is registered for
    invalid_code: str  # that of an operator whose inputs or attributes are wrong
    malformed: tuple[type[Exception], ...] = ()  # what means that the whole file is malformed

    def __init__(self) -> None:
        super().__init__()
        self.known = Known(self.weights)
        self.needed: set[str] = set()
        self.reserved: set[str] = set()  # names that weights may not have

    def constant(self, name: str, array: Array) -> Node:
        """An array as a constant of the graph or, if it is large, as a weight."""
        if array.nbytes <= INLINE_BYTES:
            return build.constant(array)
        return self.weight(self.free(name), array)

    def free(self, name: str) -> str:
        """The name, or a similar one where another weight or an input has it."""
        while name in self.weights or name in self.reserved:
            name += "'"
        return name

    def record(self, place: str, error: Exception) -> None:
        """Adds to the problems what an operator raised, and to `needed` the model's inputs whose
        values it needs.

        Raises SourceError where the whole import ends, LimitError with the place before its
        message.
        """
        if isinstance(error, NeedsValue):
            self.needed |= error.inputs
        elif isinstance(error, LimitError):
            raise LimitError(
                *(replace(d, message=f"{place}: {d.message}") for d in error.diagnostics)
            ) from None
        elif isinstance(error, (SourceError, *self.malformed)):
            raise error
        else:
            self.problems.append(self._problem(place, error))

    def _problem(self, place: str, error: Exception) -> Diagnostic:
        hint = getattr(error, "hint", "")
        if isinstance(error, DataDependent):
            return Diagnostic("XL7003", f"{place}: {error}", hint=hint)
        code = (
            self.unsupported_code if isinstance(error, UnsupportedOperator) else self.invalid_code
        )
        what = (
            str(error)
            if isinstance(error, ShapeError)
            else f"its inputs or attributes are invalid ({type(error).__name__}: {error})"
        )
        return Diagnostic(code, f"{place}: {what}", hint=hint)
