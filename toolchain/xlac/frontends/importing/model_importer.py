"""What all importers of models share: weights, and problems that are collected from one part of a
model to the next, so that one run reports them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from xlac.ir.graph import Node
from xlac.ir.lazy_arrays import LazyArrays
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, LimitError, Origin

T = TypeVar("T")


class MissingValue(Exception):
    """An operator or a layer reads a result of one that could not be imported; only the latter
    is reported.
    """


class ModelImporter(ABC):
    """The weights and the problems of one model. A kind of file says how its problems are
    reported.
    """

    def __init__(self) -> None:
        self.weights = LazyArrays()
        self.problems: list[Diagnostic] = []

    def weight(self, name: str, array: Array, origin: Origin | None = None) -> Node:
        """An array as a weight, whose name no other weight has."""
        return self.unread(name, Type(DType.of(array.dtype), array.shape), lambda: array, origin)

    def unread(
        self, name: str, type: Type, make: Callable[[], Array], origin: Origin | None = None
    ) -> Node:
        """A weight whose array is made when it is first read."""
        self.weights.add(name, make)
        return build.param(name, type.dtype, type.shape, "weight", origin)

    def attempt(self, place: Callable[[], str], build_part: Callable[[], T]) -> T | None:
        """The result of `build_part`, which imports the operator or layer at `place`; None if it
        failed, after `record`. Raises SourceError where the whole import ends.
        """
        try:
            return build_part()
        except MissingValue:
            pass
        except MemoryError:
            raise LimitError(
                Diagnostic("XL4001", f"{place()}: there is not enough memory to import it")
            ) from None
        except RecursionError:
            raise
        # a file may hold anything, so builders may raise anything
        except Exception as error:
            self.record(place(), error)
        return None

    @abstractmethod
    def record(self, place: str, error: Exception) -> None:
        """Reports what a builder raised as a problem, or raises it if the whole import ends."""
