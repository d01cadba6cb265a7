"""`xlac.from_tensorflow` and `xlac.from_saved_model`: functions of TensorFlow, compiled."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlac.frontends.tensorflow.lowered import LoweredTensorFlow, is_variable, lowered, traced
from xlac.frontends.tensorflow.saved_graph import DEFAULT
from xlac.frontends.tensorflow.saved_model import signature_of
from xlac.frontends.tracing import Tensor, node_of
from xlac.integrations.jit import jit
from xlac.integrations.tensorflow_bound import BoundVariables
from xlac.integrations.transforms import vjp
from xlac.model import Model
from xlac_sdk.source import Diagnostic, SourceError


class TensorFlowFunction:
    """A compiled function that takes and returns the tensors of the original.

    A call is an ordinary tensor: of eager code, and of a graph that TensorFlow traces, where it is
    a host function. Variables are read when it is called, and those that the function assigns are
    assigned. Gradients with respect to arguments and variables are those of our derivatives. Types
    and shapes are those of the examples.
    """

    def __init__(
        self,
        function: Any,
        args: Sequence[Any],
        options: Mapping[str, Any],
        variables: Sequence[Any] = (),
    ) -> None:
        import tensorflow as tf

        functools.update_wrapper(self, getattr(function, "python_function", function), updated=())
        self.lowered: LoweredTensorFlow = lowered(function, args, variables)
        self._gives = tf.nest.flatten(self.lowered.gives)
        self._types = [
            *(tf.as_dtype(t.dtype) for t in self._gives),
            *(variable.dtype for variable, _ in self.lowered.updates),
        ]
        self._forward = jit(self._results, **options)
        self._backward = jit(self._gradients, **options)
        self._bound = BoundVariables(self.lowered, options)
        captured = self.lowered.captured
        self._handles = [
            (value, value.handle if is_variable(value) else None) for value in captured
        ]

    @property
    def model(self) -> Model:
        """The function as a model, for xlac.compile, export and artefacts: variables are its
        weights, by their names, and those that it assigns its state.
        """
        return self.lowered.model()

    def __call__(self, *args: Any) -> Any:
        import tensorflow as tf

        tf.nest.assert_same_structure(self.lowered.specs, tuple(args))
        given = [
            self._checked(spec, value)
            for spec, value in zip(
                tf.nest.flatten(self.lowered.specs), tf.nest.flatten(args), strict=True
            )
        ]
        if _may_record():
            given += [tf.convert_to_tensor(value) for value in self.lowered.captured]
            results = self._called(*given)
        else:
            results = self._computed(given, self._captured())
        own, new = results[: len(self._gives)], results[len(self._gives) :]
        writes = [
            variable.assign(value, read_value=False)
            for (variable, _), value in zip(self.lowered.updates, new, strict=True)
        ]
        with tf.control_dependencies([w for w in writes if w is not None]):
            own = [tf.identity(value) for value in own] if writes else list(own)
        return tf.nest.pack_sequence_as(self.lowered.gives, own)

    def _checked(self, spec: Any, value: Any) -> Any:
        import tensorflow as tf

        known = isinstance(value, tf.Tensor) and value.dtype == spec.dtype
        tensor = value if known else tf.convert_to_tensor(value, spec.dtype)
        if not tensor.shape.is_compatible_with(spec.shape):
            raise SourceError(
                Diagnostic(
                    "XL6001",
                    f"an argument has shape {tensor.shape}, and the function was compiled for "
                    f"{spec.shape}",
                    hint="compile it for these arguments",
                )
            )
        return tensor

    def _captured(self) -> list[Any]:
        """The captured tensors, and the values of captured variables, in eager code. The operation
        itself takes a third of the time of a conversion.
        """
        import tensorflow as tf

        read = tf.raw_ops.ReadVariableOp
        return [
            value if handle is None else read(resource=handle, dtype=value.dtype)
            for value, handle in self._handles
        ]

    def _computed(self, own: Sequence[Any], captured: Sequence[Any]) -> Sequence[Any]:
        """The results as tensors, of eager tensors whose gradients nobody asks for."""
        import tensorflow as tf

        passed = bool(self.lowered.updates) or not captured
        bound = None if passed else self._bound.program(captured)
        # without copies: programs do not write to their arguments
        if bound is None:
            found = _listed(self._forward(*map(np.asarray, (*own, *captured))))
        else:
            found = _listed(bound(*map(np.asarray, own)))
        return [tf.constant(y, t) for y, t in zip(found, self._types, strict=True)]

    def _called(self, *given: Any) -> Sequence[Any]:
        """The results, with a gradient, as tensors."""
        import tensorflow as tf

        floats = [n for n, x in enumerate(given) if x.dtype.is_floating]

        def called(*xs: Any) -> Any:
            ys = _listed(tf.numpy_function(self._host(self._forward), xs, self._types))
            for y, node in zip(ys, self.lowered.graph.outputs.values(), strict=True):
                y.set_shape(node.shape)

            def back(*cotangents: Any) -> Any:
                types = [xs[n].dtype for n in floats]
                host = self._host(self._backward)
                gradients = _listed(tf.numpy_function(host, (*xs, *cotangents), types))
                parts: list[Any] = [None] * len(xs)
                for n, part in zip(floats, gradients, strict=True):
                    part.set_shape(xs[n].shape)
                    parts[n] = part
                return parts

            return tuple(ys), back

        results: Sequence[Any] = tf.custom_gradient(called)(*given)
        return results

    def _host(self, program: Any) -> Any:
        """A program as a function of arrays that gives a list of arrays."""

        def host(*arrays: Any) -> list[Any]:
            return [np.asarray(array) for array in _listed(program(*arrays))]

        return host

    def _results(self, *tensors: Any) -> tuple[Any, ...]:
        return tuple(map(Tensor, traced(self.lowered, [node_of(t) for t in tensors])))

    def _gradients(self, *tensors: Any) -> tuple[Any, ...]:
        count = len(self.lowered.graph.inputs)
        values, cotangents = tensors[:count], tensors[count:]
        _, back = vjp(self._results, *values)
        outputs = [node.type.dtype for node in self.lowered.graph.outputs.values()]
        given = tuple(
            c if dtype.is_float else None for c, dtype in zip(cotangents, outputs, strict=True)
        )
        return tuple(part for part in back(given) if part is not None)


def _may_record() -> bool:
    """Whether gradients of a call may be asked for, or a graph is being traced. TensorFlow's
    function for it is not public; where a version lacks it, every call counts as recorded.
    """
    import tensorflow as tf

    if not tf.executing_eagerly():
        return True
    try:
        from tensorflow.python.eager import record
    except ImportError:
        return True
    may: bool = getattr(record, "could_possibly_record", lambda: True)()
    return may


def _listed(value: Any) -> list[Any]:
    """Several results, or the only one, as a list."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def from_tensorflow(function: Any, *args: Any, **options: Any) -> TensorFlowFunction:
    """Compiles a function of TensorFlow, a tf.function or a Keras model, for example arguments
    (tensors, arrays, tf.TensorSpecs and structures of them). `options` are those of `xlac.jit`.

    TensorFlow lowers the function to StableHLO itself. Raises SourceError where it cannot, and for
    what is not supported.
    """
    return TensorFlowFunction(function, args, options)


def from_saved_model(
    folder: str | os.PathLike[str],
    *args: Any,
    signature: str = DEFAULT,
    trusted: bool = False,
    **options: Any,
) -> TensorFlowFunction:
    """Compiles a signature of a SavedModel for example arguments, in the order of its inputs; none
    are needed where its sizes are known. The function returns results by name.

    A SavedModel runs code when it is loaded (initialisers, operations on files): it is loaded only
    if it is `trusted`. Raises SourceError as `from_tensorflow`, and for a signature that it lacks.
    """
    call, specs, variables = signature_of(folder, signature, trusted)
    open_sizes = [name for name, spec in specs.items() if not spec.shape.is_fully_defined()]
    if not args and open_sizes:
        raise SourceError(
            Diagnostic(
                "XL7702",
                f"the sizes of {', '.join(open_sizes)} are open, and TensorFlow exports known ones",
                hint=f"give examples of {', '.join(specs)}",
            )
        )
    return TensorFlowFunction(call, args or tuple(specs.values()), options, variables)
