"""The classes of ONNX's messages without the rest of the onnx package, which takes 60 ms and 10 MB
to import.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

GENERATED = "onnx_ml_pb2"  # what the protobuf compiler made of onnx-ml.proto


@cache
def messages() -> Any:
    """A module with ModelProto, NodeProto, …: the same classes as the package has. Raises
    ImportError without it.
    """
    package = find_spec("onnx")
    file = (
        Path(package.origin).with_name(f"{GENERATED}.py")
        if package is not None and package.origin
        else None
    )
    if "onnx" in sys.modules or file is None or not file.is_file():
        import onnx

        return onnx
    spec = spec_from_file_location(f"{__name__}.{GENERATED}", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
