"""What importers of models that list operators share: weights, values known at import, and problems
that are collected operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from xlac.frontends.known import DataDependent, Known, NeedsValue
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, LimitError, SourceError

T = TypeVar("T")

INLINE_BYTES = 1024  # smaller constants become constants of the graph, larger ones weights


class MissingValue(Exception):
    """An operator reads a result of one that could not be imported; only the latter is
    reported.
    """


class UnsupportedOperator(ShapeError):
    """An operator that no builder is registered for."""


class OperatorImporter:
    """State shared by all operators of one model. A kind of file says its diagnostics' codes."""

    unsupported_code: str  # the diagnostic of an operator that no builder is registered for
    invalid_code: str  # that of an operator whose inputs or attributes are wrong
    malformed: tuple[type[Exception], ...] = ()  # what means that the whole file is malformed

    def __init__(self) -> None:
        self.weights: dict[str, Array] = {}
        self.known = Known(self.weights)
        self.problems: list[Diagnostic] = []
        self.needed: set[str] = set()
        self.reserved: set[str] = set()  # names that weights may not have

    def constant(self, name: str, array: Array) -> Node:
        """An array as a constant of the graph or, if it is large, as a weight."""
        if array.nbytes <= INLINE_BYTES:
            return build.constant(array)
        while name in self.weights or name in self.reserved:
            name += "'"
        self.weights[name] = array
        return build.param(name, DType.of(array.dtype), array.shape, kind="weight")

    def attempt(self, place: Callable[[], str], make: Callable[[], T]) -> T | None:
        """What `make` gives for the operator at `place`, or None if that failed: a problem is
        recorded, and so are the model's inputs whose values it needs.

        Raises SourceError where the whole import ends, LimitError with the place before its
        message.
        """
        try:
            return make()
        except MissingValue:
            pass
        except NeedsValue as needs:
            self.needed |= needs.inputs
        except LimitError as error:
            raise LimitError(
                *(replace(d, message=f"{place()}: {d.message}") for d in error.diagnostics)
            ) from None
        except MemoryError:
            raise LimitError(
                Diagnostic("XL4001", f"{place()}: there is not enough memory to import it")
            ) from None
        except (SourceError, RecursionError):
            raise
        # attributes and inputs may hold anything, so builders may raise anything
        except Exception as error:
            if isinstance(error, self.malformed):
                raise
            self.problems.append(self._problem(place(), error))
        return None

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
