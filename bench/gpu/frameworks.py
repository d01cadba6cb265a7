"""The frameworks of the GPU benchmark: xlac, PyTorch and JAX, each with operands on the device."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from workload import Workload


class Contender(ABC):
    """One framework: operands to the device, a function to call, results back."""

    def __init__(self, device: str) -> None:
        self.device = device

    @abstractmethod
    def put(self, array: np.ndarray, dtype: str) -> Any:
        """An array of the framework's, of a type, on the device."""

    @abstractmethod
    def compiled(self, workload: Workload, example: Sequence[Any]) -> Callable[..., Any]:
        """What runs the workload once; it may return before the device is done."""

    @abstractmethod
    def sync(self, result: Any) -> None:
        """Returns when everything asked for is done."""

    @abstractmethod
    def numpy(self, result: Any) -> list[np.ndarray]:
        """Results as float64."""


class Torch(Contender):
    """PyTorch: eager, or compiled with every kernel tuned and CUDA graphs."""

    def __init__(self, device: str, mode: str) -> None:
        super().__init__(device)
        import torch

        self.torch, self.mode = torch, mode
        torch.set_grad_enabled(False)

    def put(self, array: np.ndarray, dtype: str) -> Any:
        """A NumPy array as a tensor on the device, of a type by its name."""
        types = {"f32": self.torch.float32, "bf16": self.torch.bfloat16, "f16": self.torch.float16}
        tensor = self.torch.from_numpy(np.ascontiguousarray(array))
        return tensor.to(self.device, types.get(dtype, tensor.dtype))

    def compiled(self, workload: Workload, example: Sequence[Any]) -> Callable[..., Any]:
        """The workload's function, compiled for inputs like `example`."""
        self.torch.set_float32_matmul_precision(
            "high" if workload.precision == "fast" else "highest"
        )
        function = (
            self._model(workload) if workload.model is not None else self._expression(workload)
        )
        if self.mode == "eager":
            return function
        compiled: Callable[..., Any] = self.torch.compile(
            function, mode="max-autotune" if self.device == "cuda" else None, dynamic=False
        )
        return compiled

    def _expression(self, workload: Workload) -> Callable[..., Any]:
        from torch.nn import functional

        # The expression is this folder's own text (problems.py).
        return eval(
            f"lambda {', '.join(workload.operands)}: {workload.torch}",
            {"torch": self.torch, "F": functional},
        )

    def _model(self, workload: Workload) -> Callable[..., Any]:
        function, weights = _suite("torch_models", workload, workload.torch)
        held = self.torch.nn.ParameterDict(
            {k: self.torch.nn.Parameter(self.put(v, "")) for k, v in weights.items()}
        )
        return lambda *inputs: function(held, *inputs)

    def sync(self, result: Any) -> None:
        """Waits until what the device was given is done."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def numpy(self, result: Any) -> list[np.ndarray]:
        """Results as arrays of float64."""
        return [r.to("cpu", self.torch.float64).numpy() for r in _sequence(result)]


class Jax(Contender):
    """JAX on XLA; weights of models are closed over, as constants."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        os.environ["JAX_PLATFORMS"] = device
        import jax
        import jax.numpy as jnp

        self.jax, self.jnp = jax, jnp

    def put(self, array: np.ndarray, dtype: str) -> Any:
        """A NumPy array as an array on the device, of a type by its name."""
        types = {"bf16": self.jnp.bfloat16, "f16": self.jnp.float16}
        return self.jax.device_put(self.jnp.asarray(array, types.get(dtype, array.dtype)))

    def compiled(self, workload: Workload, example: Sequence[Any]) -> Callable[..., Any]:
        """The workload's function, compiled for inputs like `example`."""
        if workload.model is not None:
            function, weights = _suite("jax_models", workload, workload.jax)
            held = {k: self.jax.device_put(v) for k, v in weights.items()}
            whole: Callable[..., Any] = lambda *inputs: function(held, *inputs)
        else:
            names = {"jnp": self.jnp, "lax": self.jax.lax, "nn": self.jax.nn}
            whole = eval(f"lambda {', '.join(workload.operands)}: {workload.jax}", names)
        with self.jax.default_matmul_precision(
            "high" if workload.precision == "fast" else "highest"
        ):
            compiled: Callable[..., Any] = self.jax.jit(whole).lower(*example).compile()
        return compiled

    def sync(self, result: Any) -> None:
        """Waits until a result is computed."""
        self.jax.block_until_ready(result)

    def numpy(self, result: Any) -> list[np.ndarray]:
        """Results as arrays of float64."""
        return [np.asarray(r).astype(np.float64) for r in _sequence(result)]


class Xlac(Contender):
    """xlac: the spec as it stands, or the model's ONNX file; operands are PyTorch's tensors, read
    in place.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)
        os.environ.setdefault("XLAC_CACHE", "off")  # compile times are cold
        self.tensors = Torch(device, "eager")

    def put(self, array: np.ndarray, dtype: str) -> Any:
        """A NumPy array where the target takes it: on the GPU, or in the host's memory."""
        tensor = self.tensors.put(array, dtype)
        return tensor if self.device == "cuda" else _host_array(tensor, dtype)

    def compiled(self, workload: Workload, example: Sequence[Any]) -> Callable[..., Any]:
        """The workload's model, compiled for inputs like `example`."""
        import tempfile

        import xlac

        target = "cuda" if self.device == "cuda" else "cpu"
        with tempfile.TemporaryDirectory() as folder:
            if workload.model is None:
                file = Path(folder, f"{workload.name}.yaml")
                file.write_text(workload.spec)
            else:
                import onnx

                file = Path(folder, f"{workload.name}.onnx")
                onnx.save(workload.model.onnx(workload.model), file)
            model = xlac.compile(file, target=target)
        return model

    def sync(self, result: Any) -> None:
        """Waits until what the device was given is done."""
        self.tensors.sync(result)

    def numpy(self, result: Any) -> list[np.ndarray]:
        """Results as arrays of float64."""
        values = result.values() if isinstance(result, dict) else _sequence(result)
        if self.device == "cuda":
            return self.tensors.numpy([self.tensors.torch.from_dlpack(v) for v in values])
        return [np.asarray(v).astype(np.float64) for v in values]


CONTENDERS: dict[str, Callable[[str], Contender]] = {
    "xlac": Xlac,
    "torch_eager": lambda device: Torch(device, "eager"),
    "torch_compile": lambda device: Torch(device, "compile"),
    "jax": Jax,
}


def _host_array(tensor: Any, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        import ml_dtypes

        return np.asarray(tensor.float().numpy().astype(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())


def _sequence(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list | tuple) else [result]


def _suite(
    package: str, workload: Workload, place: str
) -> tuple[Callable[..., Any], dict[str, np.ndarray]]:
    """A model of the peers' suite: its function, and its weights as that function takes them."""
    import importlib

    module, name = place.split(":")
    function = getattr(importlib.import_module(f"{package}.{module}"), name)
    if getattr(function, "needs_meta", False):
        function = function({"options": workload.model.options})
    prepare = getattr(function, "prepare_weights", lambda weights: weights)
    return function, prepare(workload.model.weights)
