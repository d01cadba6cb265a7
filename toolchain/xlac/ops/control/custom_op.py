"""Operations of the user's own that have hand-written kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph
from xlac.ir.op import ShapeError, declare
from xlac.ir.types import Types
from xlac.ops.checks import several
from xlac.ops.control import bodies
from xlac.ops.control.meaning import AppliedBody
from xlac_sdk.languages import LANGUAGES

WHOLE = ""  # of `KernelFile.split`: one call computes everything


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A hand-written kernel for one target: a row of `CustomOp.kernels`.

    `file` and `place` (of the entry in the spec) are for messages. `function` is what the text
    calls it. `scratch` is bytes of memory that a call needs. `split` names the size that calls may
    be given a range of. `blocks`, `threads` and `shared` (bytes) are the launch on a GPU.
    """

    target: str
    language: str
    file: str
    place: str
    function: str
    text: str
    scratch: Dim = 0
    split: str = WHOLE
    blocks: Dim = 1
    threads: int = 1
    shared: int = 0

    @property
    def launched(self) -> bool:
        """Whether every thread of some blocks calls the function: on whatever device, its language
        says so.
        """
        return LANGUAGES[self.language].launched

    def row(self) -> tuple[Any, ...]:
        """The fields in order, as an attribute holds them."""
        return tuple(getattr(self, name) for name in self.__slots__)


@declare
class CustomOp(AppliedBody):
    """Gives what `body` gives, by a hand-written kernel where the target has one.

    Kernels must be permitted; `name` is what its author calls the operation.
    `kernels` holds for each target what `KernelFile` describes. A kernel is given the operands, the
    results, `sizes` and `attributes`, each with a name. `relative` and `absolute` bound how far its
    results may be from those of the body; `finite` says that operands are numbers. With a `batch`
    that size counts a leading axis of all arrays, so that several applications may be one.
    """

    mnemonic = "custom_op"
    operands = ("*args",)
    body: Graph | None = None
    name: str = ""
    kernels: tuple[tuple[Any, ...], ...] = ()
    sizes: tuple[tuple[str, Dim], ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()
    relative: float = 0.0
    absolute: float = 0.0
    finite: bool = False
    batch: str = ""

    def infer(self, *types: Any) -> Types:
        if self.body is None:
            raise ShapeError("custom_op needs a body", attribute="body")
        bodies.check(self.mnemonic, self.body, types)
        return several(bodies.outputs(self.body))

    @property
    def called(self) -> str:
        return "a hand-written kernel"

    def kernel(self, target: str) -> KernelFile | None:
        """The kernel for a target, by its name."""
        return next((KernelFile(*row) for row in self.kernels if row[0] == target), None)

    def digest(self) -> str:
        """What tells functions of different texts, types of arguments or names apart."""
        assert self.body is not None
        types = [n.type.dtype for n in (*self.body.inputs, *self.body.outputs.values())]
        facts = (self.name, [row[:6] for row in self.kernels], self.attributes, types)
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]

    @property
    def meaning(self) -> Graph:
        assert self.body is not None
        return self.body

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)
