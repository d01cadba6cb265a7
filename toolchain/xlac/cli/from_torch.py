"""`xlac train --from-torch MODULE:FUNCTION`: trains what a user's function returns."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from xlac.integrations.torch.trainer import TorchTrainer

REFUSED = (
    "dim", "sets", "allow_outside", "cpu", "triple", "arch", "max_memory", "checks",
    "allow_kernels",
)  # fmt: skip
"""Options that apply to specs only."""
OF_A_STEP = ("clip_norm", "accumulate")  # options of xlac.torch_step that the function may return


def torch_trainer(text: str, options: Mapping[str, Any], given: Mapping[str, Any]) -> TorchTrainer:
    """The trainer of MODULE:FUNCTION, with options of `xlac.torch_step`. Raises SourceError for
    missing results, and for exceptions in the function, with the line.
    """
    for name in REFUSED:
        if given.get(name):
            option = {"sets": "--set"}.get(name, f"--{name.replace('_', '-')}")
            raise click.UsageError(f"{option} is for specs; --from-torch trains a module as it is")
    module, colon, called = text.rpartition(":")
    if not colon or not module or not called.isidentifier():
        raise click.UsageError(
            f"--from-torch takes MODULE:FUNCTION or FILE.py:FUNCTION, not '{text}'"
        )
    from xlac.support.extras import needed

    with needed("--from-torch"):
        import torch  # noqa: F401 needed below, and said with its extra where it is missing
    namespace = _run(text, lambda: _imported(module))
    function = getattr(namespace, called, None)
    if not callable(function):
        from xlac_sdk.support.choices import nearest

        names = [
            name
            for name, one in vars(namespace).items()
            if callable(one) and not name.startswith("_")
        ]
        raise _wrong(f"{module} has no function '{called}'", nearest(called, names))
    returned = _run(text, function)
    return _trainer(text, returned, options)


def _trainer(text: str, returned: Any, options: Mapping[str, Any]) -> TorchTrainer:
    from xlac.integrations.torch.trainer import torch_trainer as trainer_of

    hint = (
        "return {'model': …, 'loss': …, 'optimizer': …, 'inputs': {'image': torch.zeros(32, "
        "64), 'label': torch.zeros(32, dtype=torch.long)}}, as xlac.torch_trainer takes them"
    )
    if not isinstance(returned, Mapping):
        raise _wrong(
            f"{text} returns {type(returned).__name__}, not a mapping with a model, loss and "
            "optimizer",
            hint,
        )
    missing = [name for name in ("model", "loss", "optimizer", "inputs") if name not in returned]
    if missing:
        raise _wrong(f"{text} gives no {missing[0]!r}", hint)
    known = (*"model loss optimizer inputs targets metrics schedule".split(), *OF_A_STEP)
    unknown = [name for name in returned if name not in known]
    if unknown:
        from xlac_sdk.support.choices import nearest

        raise _wrong(
            f"{text} gives {unknown[0]!r}, which xlac.torch_trainer does not take",
            nearest(str(unknown[0]), known),
        )
    return trainer_of(**{**returned, **options})


def _imported(module: str) -> ModuleType:
    if not module.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(module)
    path = Path(module)
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", module)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    imported_module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = imported_module
    spec.loader.exec_module(imported_module)
    return imported_module


def _run(text: str, function: Callable[[], Any]) -> Any:
    """The result of the user's code. Raises SourceError with the line where it fails."""
    from xlac_sdk.source import Diagnostic, SourceError, Span, XlacError

    try:
        return function()
    except XlacError:
        raise
    except SyntaxError as error:
        span = Span(Path(error.filename or text), error.lineno or 1, error.offset or 1)
        raise SourceError(Diagnostic("XL7312", f"{error.msg}", span)) from None
    except Exception as error:
        frames = [
            f
            for f in traceback.extract_tb(error.__traceback__)
            if f.filename != __file__ and "importlib" not in f.filename
        ]
        own = [f for f in frames if "site-packages" not in f.filename] or frames
        problem = f"{text} failed: {type(error).__name__}: {error}"
        last = own[-1] if own else None
        at = Span(Path(last.filename), last.lineno or 1, (last.colno or 0) + 1) if last else None
        raise SourceError(Diagnostic("XL7312", problem, at)) from None


def _wrong(problem: str, hint: str) -> Exception:
    from xlac_sdk.source import Diagnostic, SourceError

    return SourceError(Diagnostic("XL7312", problem, hint=hint))
