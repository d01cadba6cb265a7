"""Finds the values of symbolic sizes from arrays, and compiles for each set of them on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from xlac.ir.dims import Symbol, symbols
from xlac.ir.graph import Node
from xlac.model import Interface, Undecided
from xlac.ops.tensor.leaf import Param, param
from xlac.runtime.compiled import Compiled
from xlac.runtime.forms import form_of, frozen, parts, signature
from xlac.runtime.growing import Growth
from xlac.runtime.programs import PROGRAMS, Programs
from xlac.runtime.state import SharedState
from xlac_sdk.dtypes import Array
from xlac_sdk.host.array_values import as_array, device_of
from xlac_sdk.host.call_binding import Parameters, as_input, by_name
from xlac_sdk.programs.sizes import solve as solved
from xlac_sdk.source import XlacError

# limits on compiling (seconds, memory) and on calls (time-out, stop), which would hit a second
# attempt too
USER_LIMITS = frozenset({"XL4031", "XL4032", "XL4041", "XL4042"})


def solve(inputs: Sequence[Node], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The value of every symbol, solved from the shapes of the named inputs.

    Raises SourceError when a rank, a fixed size or two uses of one symbol disagree, or a bound is
    violated.
    """
    params = [n.op for n in inputs if isinstance(n.op, Param)]
    return solved([(op.name, op.type.shape) for op in params], shapes)


class Specializing:
    """A model with open sizes: compiled for each set of sizes, and of values that decide sizes,
    when first called with it. Its programs share its state, except state with open sizes.

    Called like `Compiled`. At most `programs.PROGRAMS` are kept. With `grows`, a size that comes
    with a second value stays open in the next program (see `growing.py`). `compile_for` takes sizes
    by symbol (symbols for those that stay open), and by input the values that decide sizes or, for
    sequences and optionals, the types of their parts; it raises Undecided when it needs the values
    of more inputs.
    """

    def __init__(
        self,
        interface: Interface,
        compile_for: Callable[[Mapping[str, Any], Mapping[str, Any]], Compiled],
        *,
        grows: bool = False,
    ) -> None:
        self.interface, self.grows = interface, grows
        self.compile_for = compile_for
        self._growth: Programs[Growth] = Programs()  # by the key of everything but sizes
        self._programs: Programs[Compiled] = Programs()
        self._state = SharedState()
        self._lock = Lock()
        self._deciding = frozenset(interface.values)
        self._parameters = Parameters(interface.inputs)
        self._types = {param(node).name: node.type for node in interface.params}
        # signature of a positional call -> the key of its program
        self._shapes: dict[tuple[tuple[int, ...], ...], Hashable] = {}
        # the last of these with its program, if that has no state
        self._last: tuple[Any, Compiled | None] = None, None

    def __repr__(self) -> str:
        from xlac_sdk.programs.signature import shown, sizes_of, text_of

        types, outputs = self._types, self.interface.types
        given = {
            name: text_of(types[name].dtype, types[name].shape) if name in types else ""
            for name in self.inputs
        }
        gives = {
            name: text_of(outputs[name].dtype, outputs[name].shape) if name in outputs else ""
            for name in self.outputs
        }
        sizes = sizes_of(type.shape for type in types.values())
        return shown(
            "Specializing", self.interface.name, given, gives, sizes, f"{self.programs} programs"
        )

    def __reduce__(self) -> Any:
        """Raises TypeError: workers would compile each set of sizes again."""
        raise TypeError(
            "a model with open sizes cannot be pickled: fix them (dims=…), or compile one program "
            'for all (sizes="symbolic")'
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of positional arguments."""
        return self.interface.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what a call gives."""
        return self.interface.outputs

    @property
    def programs(self) -> int:
        """How many programs are compiled and kept."""
        return len(self._programs)

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        shapes = None if named else shapes_of(arrays)
        if shapes is not None:
            last, program = self._last
            if program is not None and shapes == last:
                return program(*arrays)
            program = self._noted(shapes)
            if program is not None:
                return self._turn(program, partial(program, *arrays))
        key, program, given = self._prepared(by_name(self._parameters, arrays, named))
        self._note(shapes, key, program)
        return self._turn(program, partial(program, **given))

    def _turn(self, program: Compiled, call: Callable[[], Any]) -> Any:
        """A call of a program, which first gets the state that the last call of any program
        left.
        """
        if not program.program.state_bytes:
            return call()
        with self._state.of(program):
            return call()

    def _noted(self, shapes: tuple[tuple[int, ...], ...]) -> Compiled | None:
        """The program for NumPy arrays of these shapes, if it is known and kept."""
        program = self._programs.find(self._shapes.get(shapes))
        if program is not None and not program.program.state_bytes:
            self._last = shapes, program
        return program

    def _note(
        self, shapes: tuple[tuple[int, ...], ...] | None, key: Hashable, program: Compiled
    ) -> None:
        """Remembers the program for NumPy arrays of these shapes."""
        if shapes is not None and program.inputs == self.inputs:
            if len(self._shapes) >= PROGRAMS:
                self._shapes.clear()
            self._shapes[shapes] = key

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array]) -> None:
        """Calls `Compiled.run` of the program for these inputs."""
        shapes = None
        if type(inputs) is dict and len(inputs) == len(self.inputs):
            shapes = shapes_of([inputs.get(name) for name in self.inputs])
            if shapes is not None:
                last, program = self._last
                if program is not None and shapes == last:
                    program.run(inputs, out)
                    return
                program = self._noted(shapes)
                if program is not None:
                    self._turn(program, partial(program.run, inputs, out))
                    return
        key, program, given = self._prepared(by_name(self._parameters, (), inputs))
        self._note(shapes, key, program)
        self._turn(program, partial(program.run, given, out))

    def reset(self) -> None:
        """Sets the model's state to zero."""
        self._state.reset(self._programs.kept())

    def specialize(self, inputs: Mapping[str, Any]) -> Compiled:
        """The program for these arrays' shapes and deciding values, compiled on first use."""
        return self._prepared(by_name(self._parameters, (), inputs))[1]

    def _prepared(self, inputs: Mapping[str, Any]) -> tuple[Hashable, Compiled, dict[str, Any]]:
        """The program for these inputs, its key, and the inputs that it takes."""
        forms = {name: form_of(name, inputs[name]) for name in self.interface.formed}
        given = parts({name: self._array(name, value) for name, value in inputs.items()}, forms)
        sizes = solve(
            self.interface.params, {name: np.shape(value) for name, value in given.items()}
        )
        while True:
            deciding = self._deciding
            values = {name: as_array(given[name]) for name in deciding}
            others = (frozen(forms), tuple(sorted((n, signature(v)) for n, v in values.items())))
            try:
                key, program = self._for(sizes, others, {**forms, **values})
            except Undecided as more:
                if more.interface.values <= deciding:
                    raise
                self._learn(more.interface.values)
            else:
                return (
                    key,
                    program,
                    {name: value for name, value in given.items() if name not in values},
                )

    def _for(
        self, sizes: Mapping[str, int], others: Hashable, values: Mapping[str, Any]
    ) -> tuple[Hashable, Compiled]:
        """The program for some sizes and other keys, with its complete key."""
        growth = self._growth.get(others, lambda: Growth(self._symbols())) if self.grows else None
        chosen = growth.choose(sizes) if growth is not None else None
        if growth is not None and chosen is not None:
            wanted, key = chosen.values(sizes, growth.symbols), (chosen, others)
            try:
                program = self._programs.get(key, lambda: self.compile_for(wanted, values))
            except Undecided:
                raise
            # open sizes are not supported; a limit of the user's is raised
            except XlacError as error:
                if any(one.code in USER_LIMITS for one in error.diagnostics):
                    raise
            else:
                if all(admits(program, name, sizes[name]) for name in chosen.names):
                    return key, program
            growth.refuse(chosen)
        own = (tuple(sorted(sizes.items())), others)
        return own, self._programs.get(own, lambda: self.compile_for(sizes, values))

    def _learn(self, names: Iterable[str]) -> None:
        """Records that these inputs' values decide sizes too. Thread-safe."""
        with self._lock:
            self._deciding |= frozenset(names)

    def _symbols(self) -> set[Symbol]:
        return {s for type in self._types.values() for dim in type.shape for s in symbols(dim)}

    def _array(self, name: str, value: Any) -> Any:
        """An input as an array that matches the known type; one on a device is passed on for the
        program to check.
        """
        if name in self.interface.formed:
            return value
        if device_of(value) and hasattr(value, "shape") and hasattr(value, "dtype"):
            return value
        type = self._types.get(name)
        return (
            as_array(value, None, name)
            if type is None
            else as_input(name, type.dtype, type.shape, value)
        )


def shapes_of(arrays: Sequence[Any]) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of NumPy arrays; None if one is of another kind."""
    shapes = []
    for array in arrays:
        if type(array) is not np.ndarray:
            return None
        shapes.append(array.shape)
    return tuple(shapes)


def admits(program: Compiled, name: str, value: int) -> bool:
    """Whether a size is open in a program and may have this value."""
    symbol = next((s for s in program.program.sizes if s.name == name), None)
    return symbol is not None and symbol.min <= value <= symbol.max
