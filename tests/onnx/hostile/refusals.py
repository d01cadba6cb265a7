"""A small model to damage, and the message with which a damaged one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import ModelProto
from onnx_cases import model, value

from xlac.frontends.onnx import load
from xlac_sdk.source import SourceError


def refused(proto: ModelProto | bytes, code: str, tmp_path: Path, **options: Any) -> str:
    """The message with which a model is refused; read from a file."""
    file = tmp_path / "m.onnx"
    file.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    with pytest.raises(SourceError) as error:
        load(file, **options)
    assert error.value.diagnostics[0].code == code, str(error.value)
    return str(error.value)


def plain(
    *nodes: Any, outputs: str = "z", constants: dict[str, Any] | None = None, **options: Any
) -> ModelProto:
    return model(
        nodes, [value("x", [2, 3])], [value(name, None) for name in outputs], constants, **options
    )
