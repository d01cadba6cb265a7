"""Finds the values of symbolic sizes from arrays, and compiles for each set of them on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from xlac.arrays import as_array
from xlac.compiled import Compiled
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.model import Interface, Undecided
from xlac.ops.leaf import Param
from xlac.programs import Programs
from xlac_sdk.backend import Array
from xlac_sdk.dtypes import DType
from xlac_sdk.sizes import solve as solved
from xlac_sdk.source import Diagnostic, SourceError


def solve(inputs: Sequence[Node], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The value of every symbol that the shapes of the named inputs determine.

    Raises SourceError when a rank, a fixed size or two uses of one symbol disagree, or a bound is violated.
    """
    params = [n.op for n in inputs if isinstance(n.op, Param)]
    return solved([(op.name, op.type.shape) for op in params], shapes)


class Specializing:
    """A model with open sizes: compiled for each set of sizes, and of values that decide sizes, when it first meets it.

    Called like `Compiled`. At most `programs.PROGRAMS` are kept. `compile_for` takes sizes by symbol, and by input the
    values that decide sizes or, for sequences and optionals, the types of their parts; it raises Undecided when it
    needs the values of more inputs.
    """

    def __init__(self, interface: Interface, compile_for: Callable[[Mapping[str, int], Mapping[str, Any]], Compiled]) -> None:
        self.interface = interface
        self.compile_for = compile_for
        self._programs: Programs[Compiled] = Programs()
        self._deciding = frozenset(interface.values)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.interface.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.interface.outputs

    @property
    def programs(self) -> int:
        """How many programs are compiled and kept."""
        return len(self._programs)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        given = {**dict(zip(self.inputs, arrays, strict=False)), **named}
        program, rest = self._prepared(given)
        return program(*arrays[len(self.inputs) :], **rest)

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array]) -> None:
        program, rest = self._prepared(inputs)
        program.run(rest, out)

    def reset(self) -> None:
        """Sets the state of every program to zero."""
        for program in self._programs.kept():
            program.reset()

    def specialize(self, inputs: Mapping[str, Any]) -> Compiled:
        """The program for the shapes, and the deciding values, of these arrays, compiled if it is not there yet."""
        return self._prepared(inputs)[0]

    def _prepared(self, inputs: Mapping[str, Any]) -> tuple[Compiled, dict[str, Any]]:
        """The program for these inputs, and those that it takes."""
        forms = {name: form_of(name, inputs[name]) for name in self.interface.formed if name in inputs}
        given = parts(inputs, forms)
        sizes = solve(self.interface.params, {name: np.shape(value) for name, value in given.items()})
        while True:
            values = {name: self._value(name, given) for name in self._deciding}
            key = (tuple(sorted(sizes.items())), frozen(forms), tuple(sorted((n, signature(v)) for n, v in values.items())))
            try:
                program = self._programs.get(key, lambda values=values: self.compile_for(sizes, {**forms, **values}))  # type: ignore[misc]
            except Undecided as more:
                if more.interface.values <= self._deciding:
                    raise
                self._deciding |= more.interface.values
            else:
                return program, {name: value for name, value in given.items() if name not in values}

    def _value(self, name: str, given: Mapping[str, Any]) -> Array:
        if name not in given:
            raise SourceError(Diagnostic("XL6001", f"input '{name}' is missing, and its value decides sizes"))
        return as_array(given[name])


def form_of(name: str, value: Any) -> Any:
    """The types of the parts of a sequence or an optional: a type, None, or a list of such."""
    if isinstance(value, list | tuple):
        return [form_of(name, part) for part in value]
    if value is None:
        return None
    array = as_array(value)
    return Type(DType.of(array.dtype), array.shape)


def parts(inputs: Mapping[str, Any], forms: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name, those of sequences and optionals by the names of their parts: `images.0`, `mask.0`."""
    found: dict[str, Any] = {}

    def visit(name: str, value: Any) -> None:
        for number, part in enumerate(value if isinstance(value, list | tuple) else () if value is None else (value,)):
            if isinstance(part, list | tuple):
                visit(f"{name}.{number}", part)
            else:
                found[f"{name}.{number}"] = as_array(part)

    for name, value in inputs.items():
        if name in forms:
            visit(name, value)
        else:
            found[name] = value if isinstance(value, int | float) else as_array(value)
    return found


def frozen(value: Any) -> Hashable:
    """Forms as a key."""
    if isinstance(value, dict):
        return tuple(sorted((name, frozen(form)) for name, form in value.items()))
    return tuple(frozen(v) for v in value) if isinstance(value, list) else str(value)


def signature(array: Array) -> Hashable:
    """An array's value as a key."""
    return str(array.dtype), array.shape, array.tobytes()
