"""Other engines that run the same model: ONNX Runtime on its export, JAX on its StableHLO, PyTorch
on the exported program that it came from. Each is prepared once and may be called many times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops.tensor.leaf import param

Outputs = dict[str, Array]

EngineCall = Callable[[], Outputs]
"""Runs a model that was prepared for an engine, on the inputs that it was prepared with. Raises
EngineUnavailable if that fails.
"""


class EngineUnavailable(Exception):
    """An engine that is not installed, or cannot run this model; the text says why."""


def onnxruntime(
    model: Model, source: Path | None, inputs: Mapping[str, Array], threads: int = 0
) -> EngineCall:
    """The user's file, if it is an ONNX model, or our export in ONNX Runtime on the CPU; with 0
    threads it chooses their number.
    """
    _needs("onnxruntime", "onnx")
    import onnxruntime as ort

    if source is not None and source.suffix == ".onnx":
        data: str | bytes = str(source)
    else:
        from xlac.exporters.onnx import model as exported
        from xlac_sdk.source import XlacError

        try:
            data = exported.proto(model).SerializeToString()
        except XlacError as error:
            raise EngineUnavailable(f"ONNX cannot express it: {_first(error)}") from None
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        wanted = {i.name for i in session.get_inputs()}
        given = {name: array for name, array in inputs.items() if name in wanted}
    except Exception as error:  # exceptions of a C++ library
        raise EngineUnavailable(_first(error)) from None
    names = [o.name for o in session.get_outputs()]

    def call() -> Outputs:
        try:
            return _named(model, names, session.run(None, given))
        except Exception as error:  # exceptions of a C++ library
            raise EngineUnavailable(_first(error)) from None

    return call


def jax(
    model: Model, source: Path | None, inputs: Mapping[str, Array], threads: int = 0
) -> EngineCall:
    """Our export to StableHLO in the XLA for CPUs that comes with JAX, which chooses the number of
    threads itself.
    """
    _needs("jax")
    import jax as library
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    from xlac.exporters.stablehlo import text
    from xlac_sdk.source import XlacError

    try:
        module = text(model)
    except XlacError as error:
        raise EngineUnavailable(f"StableHLO cannot express it: {_first(error)}") from None
    arrays = [inputs[param(node).name] for node in model.graph.inputs]
    try:
        with library.enable_x64(True):
            backend = xla_bridge.get_backend("cpu")
            device = backend.local_devices()[0]
            context = mlir.make_ir_context()
            with context, ir.Location.unknown(context):
                parsed = ir.Module.parse(module)
                devices = xla_client.DeviceList((device,))
                options = xla_client.CompileOptions()
                executable = backend.compile_and_load(parsed, devices, options, [])
            given = [library.device_put(a, device) for a in arrays]
    except Exception as error:  # XLA has many exception types
        raise EngineUnavailable(_first(error)) from None

    def call() -> Outputs:
        try:
            results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
            arrays = [np.asarray(r[0]) for r in results]
        except Exception as error:  # XLA has many exception types
            raise EngineUnavailable(_first(error)) from None
        return _named(model, list(model.graph.outputs), arrays)

    return call


def torch(
    model: Model, source: Path | None, inputs: Mapping[str, Array], threads: int = 0
) -> EngineCall:
    """A .pt2 file in PyTorch, eagerly; with 0 threads it chooses their number."""
    if source is None or source.suffix != ".pt2":
        raise EngineUnavailable("PyTorch runs .pt2 files alone")
    _needs("torch")
    import torch as library

    from xlac.frontends.torch.tensors import array_of, tensor_of

    try:
        program = library.export.load(str(source)).module()
        given = [tensor_of(np.array(inputs[param(n).name])) for n in model.inputs]
    except Exception as error:  # PyTorch has many exception types
        raise EngineUnavailable(_first(error)) from None
    if threads:
        library.set_num_threads(threads)

    def call() -> Outputs:
        try:
            with library.no_grad():
                results = library.utils._pytree.tree_leaves(program(*given))
        except Exception as error:  # PyTorch has many exception types
            raise EngineUnavailable(_first(error)) from None
        tensors = [r for r in results if isinstance(r, library.Tensor)]
        return _named(model, list(model.graph.outputs), [array_of(t) for t in tensors])

    return call


Prepare = Callable[[Model, "Path | None", Mapping[str, Array], int], EngineCall]
"""Prepares a model, or the file that it was read from, for some inputs and a number of threads.
Raises EngineUnavailable.
"""

ENGINES: Mapping[str, Prepare] = {"onnxruntime": onnxruntime, "torch": torch, "jax": jax}
"""Engines by the name that `--against` takes; `reference` is our own interpreter."""


def _needs(*packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise EngineUnavailable(f"{package} is not installed")


def _named(model: Model, names: list[str], arrays: list[Array]) -> Outputs:
    """Results by the names of our outputs: by their own names where these match, else in order."""
    own = list(model.graph.outputs)
    if not set(own) & set(names):
        names = own
    return {name: np.asarray(array) for name, array in zip(names, arrays, strict=False)}


def _first(error: Exception) -> str:
    return str(error).partition("\n")[0][:300] or type(error).__name__
