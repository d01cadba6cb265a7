"""Optional packages: the command that installs each, and a one-line error in place of a traceback
where one is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlac_sdk.source import Diagnostic, SourceError

EXTRAS = {
    "onnx": "'xlac[onnx]'", "ml_dtypes": "ml_dtypes", "torch": "'xlac[torch]'",
    "sympy": "'xlac[torch]'", "functorch": "'xlac[torch]'", "jax": "'xlac[jax]'",
    "jaxlib": "'xlac[stablehlo]'", "absl": "'xlac[jax]'", "PIL": "'xlac[pictures]'",
    "llvmlite": "llvmlite", "pyarrow": "'xlac[parquet]'", "tensorboardX": "'xlac[tensorboard]'",
    "dask": "'xlac[fleets]'", "distributed": "'xlac[fleets]'",
    "ray": "'xlac[ray]'", "mlserver": "'xlac[serve]'",
    "prometheus_client": "'xlac[serve]'",
    "tensorflow": "tensorflow-cpu",
    "h5py": "'xlac[keras]'",
}  # fmt: skip
"""The name that pip installs, by the name that Python imports."""


def missing(error: ImportError, what: str = "this") -> SourceError | None:
    """The error for a package that is not installed, if `error` is about one; `what` names the
    feature that needs it.
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    problem = f"{what} needs the package {package}, which is not installed"
    if not isinstance(error, ModuleNotFoundError) or error.name != package:
        problem = (
            f"{what} needs the package {package}, and the installed one cannot be used: {error}"
        )
    return SourceError(Diagnostic("XL7010", problem, hint=f"pip install {EXTRAS[package]}"))


@contextmanager
def needed(what: str) -> Iterator[None]:
    """Inside the block, a missing package raises SourceError saying that `what` needs it."""
    try:
        yield
    except ImportError as error:
        problem = missing(error, what)
        if problem is None:
            raise
        raise problem from None
