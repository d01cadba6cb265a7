"""Imports PyTorch programs: files written by `torch.export.save`, and what `from_torch` and
`torch.compile` trace.

Only this package and `xlac.integrations.torch` import torch.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xlac.model import Model
from xlac_sdk.source import Diagnostic, LimitError, SourceError


def load(
    source: Any,
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
) -> Model:
    """The model of a program of `torch.export`, or of the file (.pt2) in which one is saved. Raises
    SourceError.
    """
    if not isinstance(source, Path):
        from xlac.frontends.torch.exported import imported

        return imported(source).model
    with quiet():
        program = opened(source)
        # deferred until PyTorch is known to be installed
        from xlac.frontends.torch.exported import imported

        return imported(program, source.stem).model


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses PyTorch's own warnings and logs, which concern its code and not the user's."""
    notes = logging.getLogger("torch")
    level = notes.level
    notes.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        notes.setLevel(level)


def opened(file: Path) -> Any:
    """The program in a file."""
    try:
        import torch
    except ImportError:
        raise SourceError(
            Diagnostic(
                "XL7305", f"{file.name} needs PyTorch to be read", hint="pip install 'xlac[torch]'"
            )
        ) from None
    try:
        from xlac.frontends.torch.pt2.archive import read
        from xlac.frontends.torch.pt2.checked import Refused
    except ModuleNotFoundError:
        raise
    except ImportError as error:
        # the code below uses PyTorch's private schema, which changes between versions
        reason = (
            f"PyTorch {torch.__version__} has another file format than 2.13, which xlac "
            f"reads ({error})"
        )
        raise SourceError(Diagnostic("XL7305", reason, hint="pip install 'xlac[torch]'")) from None
    try:
        return read(file)
    except OSError as error:
        raise SourceError(Diagnostic("XL3001", f"cannot read {file}: {error.strerror}")) from None
    except Refused as error:
        raise SourceError(Diagnostic("XL7308", f"{file}: {error}")) from None
    except LimitError:
        raise
    except Exception as error:
        problem = (
            f"{file} is not a program of torch.export: "
            f"{str(error).splitlines()[0] if str(error) else type(error).__name__}"
        )
        raise SourceError(Diagnostic("XL7306", problem)) from None
