"""A function of TensorFlow for arguments of given types, as a model: TensorFlow lowers it to
StableHLO text, which is then imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlac.frontends.stablehlo import load
from xlac.frontends.tensorflow.eager_work import EagerWork, eager_work
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.walks import substituted
from xlac_sdk.source import Diagnostic, Origin, SourceError

ALIAS = re.compile(r"parameter_number = (\d+) : i64\}, output_index = array<i64(?:: ([\d, ]+))?>")
"""In `mhlo.input_output_alias`: the argument whose new value a result is."""


@dataclass(frozen=True)
class LoweredTensorFlow:
    """A function lowered for arguments of given types.

    `specs` are the types and shapes of the arguments, in their structure. `graph` takes the tensors
    of the arguments and then the captured ones; `captured` are those, variables as variables.
    `updates` are the variables that a call assigns, each with the number of the result that is its
    new value; `gives` are the function's own results, a structure of tensor specs; `work` is what
    TensorFlow does to run it.
    """

    specs: Any
    graph: Graph
    inputs: int  # how many of the graph's inputs are the caller's arguments
    captured: tuple[Any, ...]
    gives: Any
    updates: tuple[tuple[Any, int], ...]
    work: EagerWork

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each captured tensor: of a variable its own, else `constant` and a number."""
        names: list[str] = []
        for number, value in enumerate(self.captured):
            name = str(getattr(value, "name", "") if is_variable(value) else f"constant_{number}")
            name = name.partition(":")[0] or f"variable_{number}"
            while name in names:
                name += "_"
            names.append(name)
        return tuple(names)

    def model(self, read: Mapping[str, Any] | None = None) -> Model:
        """The function as a model: captured tensors are its weights, by their names; variables that
        a call assigns are its state, and start as weights do. `read` are arrays by name, by default
        what the tensors hold now.
        """
        number_of = {id(variable): number for variable, number in self.updates}
        results = list(self.graph.outputs)
        weights, state, change = {}, {}, {}
        assigned: dict[str, str] = {}  # the names of results that are new values of state
        kept = list(self.graph.inputs[: self.inputs])
        for node, value, name in zip(
            self.graph.inputs[self.inputs :], self.captured, self.names, strict=True
        ):
            number = number_of.get(id(value))
            kind = "weight" if number is None else "state"
            new = build.param(name, node.type.dtype, node.shape, kind, Origin(name))
            change[node] = new
            weights[name] = value.numpy() if read is None else read[name]
            if number is not None:
                kept.append(new)
                state[name] = f"{name}.next"
                assigned[results[number]] = state[name]
        values = substituted(list(self.graph.outputs.values()), change)
        named = {
            assigned.get(result, result): value
            for result, value in zip(results, values, strict=True)
        }
        graph = Graph(self.graph.name, tuple(kept), named)
        return Model(graph, weights, state=state)


def is_variable(value: Any) -> bool:
    """Whether a captured value is a variable."""
    return hasattr(value, "assign") and hasattr(value, "handle")


def lowered(function: Any, args: Sequence[Any], variables: Sequence[Any] = ()) -> LoweredTensorFlow:
    """Lowers a function for arguments that are tensors, arrays and structures of them; `variables`
    are those that it captures without TensorFlow knowing of them.

    Raises SourceError with what TensorFlow says where it cannot lower it (operations on text, sizes
    that depend on data), and with what the importer refuses.
    """
    import tensorflow as tf

    python = getattr(function, "python_function", function)
    name = getattr(python, "__name__", type(python).__name__)

    def called(*given: Any) -> Any:
        return python(*given)  # without the defaults of other arguments, which have no tensors

    jitted = tf.function(called, jit_compile=True, autograph=getattr(function, "_autograph", True))
    specs = tf.nest.map_structure(_spec, tuple(args))
    try:
        concrete = jitted.get_concrete_function(*specs)
        lowering = jitted.experimental_get_compiler_ir(*specs)(stage="stablehlo")
    except Exception as error:  # TensorFlow may raise anything
        said = " ".join(str(error).split())[:400] or type(error).__name__
        raise SourceError(
            Diagnostic("XL7701", f"TensorFlow cannot lower {name}() to StableHLO: {said}")
        ) from error
    text = lowering if isinstance(lowering, str) else lowering.decode()
    model = load(text)
    handles = {id(v.handle): v for v in (*variables, *concrete.variables)}
    captured = tuple(handles.get(id(c), c) for c in concrete.captured_inputs)
    count = len(tf.nest.flatten(specs))
    gives = concrete.structured_outputs
    graph = model.graph
    if len(graph.inputs) != count + len(captured):
        raise SourceError(
            Diagnostic(
                "XL7701",
                f"TensorFlow lowered {name}() to {len(graph.inputs)} arguments, where it takes "
                f"{count} tensors and captures {len(captured)}",
            )
        )
    updates = _updates(text, graph, gives, count, captured, name)
    work = eager_work(concrete.graph)
    return LoweredTensorFlow(specs, graph, count, captured, gives, updates, work)


def _spec(value: Any) -> Any:
    """The tensor spec of an example, which may be one."""
    import tensorflow as tf

    if isinstance(value, tf.TensorSpec):
        return value
    return tf.TensorSpec.from_tensor(tf.convert_to_tensor(value))


def _updates(
    text: str, graph: Graph, gives: Any, count: int, captured: Sequence[Any], name: str
) -> tuple[tuple[Any, int], ...]:
    """The variables that a call assigns, with the results that are their new values."""
    import tensorflow as tf

    own = len(tf.nest.flatten(gives))
    aliased: Mapping[int, int] = {
        int(found[2] or 0): int(found[1]) for found in ALIAS.finditer(text)
    }
    updates = []
    for number in range(own, len(graph.outputs)):
        argument = aliased.get(number, -1) - count
        if not 0 <= argument < len(captured) or not is_variable(captured[argument]):
            raise SourceError(
                Diagnostic("XL7701", f"result {number} of {name}() is the new value of no variable")
            )
        updates.append((captured[argument], number))
    return tuple(updates)


def traced(lowered: LoweredTensorFlow, tensors: Sequence[Node]) -> list[Node]:
    """The results of a lowered function for nodes: the caller's tensors, then the captured ones."""
    change = dict(zip(lowered.graph.inputs, tensors, strict=True))
    return substituted(list(lowered.graph.outputs.values()), change)
