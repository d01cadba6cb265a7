"""xlac compiles graph specs to machine code.

    model = xlac.compile("specs/digits.yaml", target="cpu", dims={"batch": 8})
    probs = model(image=x)
    probs = xlac.load("out/digits")(image=x)    # what xlac build made; needs no compiler

    @xlac.jit
    def f(x, y, z): return xlac.sum(x + y * z)

Every operation of `xlac ops` is a function here, for use in traced code. Names are imported when
first used.
"""

from __future__ import annotations

from typing import Any

from xlac_sdk.support.moved import install

_HOMES = {
    "compile": "xlac.api",
    "Compiled": "xlac.runtime.compiled",
    "load": "xlac.artefact.loader",
    "Model": "xlac.model",
    "trainer": "xlac.training.trainer",
    "train": "xlac.training.loop.train",
    "verify": "xlac.debug.verify.verify",
    "tune": "xlac.debug.tune.python_api",
    "jit": "xlac.integrations.jit",
    **dict.fromkeys(
        ("grad", "value_and_grad", "jvp", "vjp", "vmap"), "xlac.integrations.transforms"
    ),
    **dict.fromkeys(("scan", "while_loop", "cond", "switch"), "xlac.frontends.traced_control"),
    "custom_gradient": "xlac.frontends.gradients.declared_gradients",
    "register_op": "xlac.integrations.registered.operation",
    "from_torch": "xlac.integrations.torch.function",
    "torch_step": "xlac.integrations.torch.step",
    "torch_trainer": "xlac.integrations.torch.trainer",
    "from_jax": "xlac.integrations.jax",
    **dict.fromkeys(("from_tensorflow", "from_saved_model"), "xlac.integrations.tensorflow"),
    "should_compile": "xlac.integrations.tensorflow_decision",
    "timeout": "xlac_sdk.host.stopping",
    "Tensor": "xlac.frontends.tracing",
    "DType": "xlac_sdk.dtypes",
    "XlacError": "xlac_sdk.source",
    "SourceError": "xlac_sdk.source",
    "UnsupportedError": "xlac_sdk.source",
    "LimitError": "xlac_sdk.source",
    "DeadlineError": "xlac_sdk.source",
    "CheckFailed": "xlac.support.failures",
}

install("xlac", {"onnx_backend": "integrations.onnx_backend"})


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("xlac")
    if name in _HOMES:
        try:
            return getattr(import_module(_HOMES[name]), name)
        except ImportError as error:
            from xlac.support.extras import missing

            raise missing(error, f"xlac.{name}") or error from None
    if not name.startswith("_"):
        function = import_module("xlac.frontends.tracing").function(name)
        if function is not None:
            return function
    raise AttributeError(f"module 'xlac' has no attribute '{name}'")


def __dir__() -> list[str]:
    import xlac.ops

    return sorted({*globals(), *_HOMES, *xlac.ops.OPS})
