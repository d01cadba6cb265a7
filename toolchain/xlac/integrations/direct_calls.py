"""Calls of a jitted function that go to its program at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlac.frontends.pytree import LEAF, PyTree, unflatten
from xlac_sdk.dtypes import DType


class JittedProgram(NamedTuple):
    """A program of a jitted function: which leaves of a call it takes, each as the dtype that a
    number becomes or as it is, and the structure of what the function returns.
    """

    compiled: Any
    takes: tuple[tuple[int, DType | None], ...]
    result: PyTree


class DirectCall(NamedTuple):
    """A program whose inputs are the arguments of a call, as they are, by position.

    `function` gives NotImplemented for other arguments than arrays of the program's shapes and
    dtypes, else its output, or a tuple of several. `result` is None where the jitted function
    returns just that.
    """

    function: Callable[..., Any]
    result: PyTree | None

    def rebuilt(self, outputs: Any) -> Any:
        """What the jitted function returns, from the program's outputs."""
        return unflatten(self.result, outputs if type(outputs) is tuple else (outputs,))

    @staticmethod
    def of(program: JittedProgram, count: int) -> DirectCall | None:
        """The program of a call with `count` arrays by position; None where it takes something else
        than these, or may be called through its object only.
        """
        function = getattr(program.compiled, "direct", None)
        if function is None or program.takes != tuple((n, None) for n in range(count)):
            return None
        outputs = len(program.compiled.outputs)
        plain = LEAF if outputs == 1 else ("tuple", tuple(("leaf", n) for n in range(outputs)))
        return DirectCall(function, None if program.result == plain else program.result)
