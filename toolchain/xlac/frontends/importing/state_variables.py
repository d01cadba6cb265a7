"""Variables of an imported model, which persist between calls as state of the program."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dtypes import DType

BEGUN = "initialized"  # state: whether a call has written the variables


@dataclass(slots=True)
class Variable:
    """The parameter with a variable's value at the start of a call, and its current value."""

    param: Node
    now: Node


class StateVariables:
    """The variables used by a model so far, by name."""

    def __init__(self) -> None:
        self.all: dict[str, Variable] = {}
        self.initial: dict[str, Node] = {}  # values written by CALL_ONCE
        self._begun: Node | None = None

    @property
    def params(self) -> list[Node]:
        """The parameters that hold the variables."""
        begun = [] if self._begun is None else [self._begun]
        return [*(variable.param for variable in self.all.values()), *begun]

    def read(self, name: str, type: Type) -> Node:
        """The value of a variable; before the first call its initial value, by default zeros."""
        if name not in self.all:
            self._declare(name, type)
        node = self.all[name].now
        if node.type != type:
            raise ShapeError(f"variable '{name}' is {node.type}, and is read as {type}")
        return node

    def write(self, name: str, value: Node) -> None:
        """Assigns a new value to a variable, of its type."""
        if name not in self.all:
            self._declare(name, value.type)
        known = self.all[name]
        if known.param.type != value.type:
            raise ShapeError(
                f"variable '{name}' is {known.param.type}, and {value.type} is written to it"
            )
        known.now = value

    def _declare(self, name: str, type: Type) -> None:
        if not all(isinstance(size, int) for size in type.shape):
            raise ShapeError(f"variable '{name}' is {type}: its sizes must be known")
        param = build.param(name, type.dtype, type.shape, kind="state")
        now = param
        first = self.initial.get(name)
        if first is not None:
            if first.type != type:
                raise ShapeError(f"variable '{name}' begins as {first.type}, and is {type}")
            now = build.select(self._began(), param, first)
        self.all[name] = Variable(param, now)

    def _began(self) -> Node:
        if self._begun is None:
            self._begun = build.param(BEGUN, DType.BOOL, (), kind="state")
        return self._begun

    def state(self, outputs: dict[str, Node]) -> dict[str, str]:
        """For each parameter the name of the output with its next value, which is added to
        `outputs`.
        """
        state = {}
        following = {name: variable.now for name, variable in self.all.items()}
        if self._begun is not None:
            following[BEGUN] = build.constant(True)
        for name, value in following.items():
            result = f"{name}.next"
            while result in outputs:
                result += "'"
            outputs[result] = value
            state[name] = result
        return state
