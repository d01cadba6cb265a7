"""Portable bytecode, read by jaxlib's MLIR bindings and turned into text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xlac_sdk.source import Diagnostic, SourceError

MAGIC = b"ML\xefR"


def is_bytecode(data: bytes) -> bool:
    return data.startswith(MAGIC)


def text_of(data: bytes, file: Path) -> str:
    """The module of portable bytecode as text, in the dialect's present version. Raises SourceError."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import chlo, func, stablehlo
    except ImportError:
        problem = f"{file} is bytecode, which needs jaxlib"
        raise SourceError(Diagnostic("XL7210", problem, hint="pip install 'xlac[stablehlo]', or write text: mlir_module()")) from None
    with ir.Context() as context:
        for dialect in (chlo, stablehlo):
            dialect.register_dialect(context)
        assert func
        return _text(stablehlo, context, data, file)


def _text(stablehlo: Any, context: Any, data: bytes, file: Path) -> str:
    try:
        module = stablehlo.deserialize_portable_artifact(context, data)
    except Exception as error:  # the bindings raise what they like
        problem = f"{file} is not StableHLO bytecode: {str(error)[:300]}"
        raise SourceError(Diagnostic("XL7211", problem)) from None
    text: str = module.operation.get_asm(enable_debug_info=False)
    return text
