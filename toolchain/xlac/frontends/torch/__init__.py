"""PyTorch's programs as models: files written by `torch.export.save`, and what `from_torch` and `torch.compile` import.

Nothing outside this package imports torch, but for `xlac.torched`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.model import Model
from xlac.settings import environment
from xlac_sdk.source import Diagnostic, SourceError

TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load(
    source: Any,
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
) -> Model:
    """The model of a program of `torch.export`, or of the file (.pt2) in which one is saved. Raises SourceError."""
    from xlac.frontends.torch.exported import imported

    program, name = (opened(source), source.stem) if isinstance(source, Path) else (source, "main")
    return imported(program, name).model


def opened(file: Path) -> Any:
    """The program in a file."""
    try:
        import torch
    except ImportError:
        raise SourceError(Diagnostic("XL7305", f"{file.name} needs PyTorch to be read", hint="pip install 'xlac[torch]'")) from None
    try:
        with environment(TENSORS_ONLY, "1"):  # a pickle may otherwise run whatever it says
            return torch.export.load(file)
    except OSError as error:
        raise SourceError(Diagnostic("XL3001", f"cannot read {file}: {error.strerror}")) from None
    except Exception as error:
        problem = f"{file} is not a program of torch.export: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        raise SourceError(Diagnostic("XL7306", problem)) from None
