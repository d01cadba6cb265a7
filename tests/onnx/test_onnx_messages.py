"""ONNX's messages are read without importing the onnx package, and are those of the package for who
imports it later.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from xlac.frontends.onnx.file.dtypes import CODED, DTYPES, LISTED

PROGRAM = """
import sys
import numpy as np
from xlac.api import compile
run = compile(sys.argv[1], "reference")
assert "onnx" not in sys.modules and "google.protobuf" in sys.modules
x = np.arange(6, dtype=np.float32).reshape(2, 3)
assert (run(x) == x * 3).all()
import onnx
from xlac.frontends.onnx.file.messages import messages
assert messages() is not onnx and messages().ModelProto is onnx.ModelProto
assert (compile(onnx.load(sys.argv[1]), "reference")(x) == x * 3).all()
"""


def test_a_file_is_compiled_without_the_onnx_package(tmp_path: Path) -> None:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)) for name in "xy"]
    three = helper.make_tensor("three", TensorProto.FLOAT, (), np.array([3], np.float32))
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "three"], ["y"])], "threefold", info[:1], info[1:], [three]
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10),
        tmp_path / "threefold.onnx",
    )
    subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "threefold.onnx"], check=True, timeout=1800
    )


@pytest.mark.parametrize("number", sorted(DTYPES | CODED))
def test_the_field_that_lists_elements_is_the_one_of_the_package(number: int) -> None:
    assert LISTED.get(number, "int32_data") == helper.tensor_dtype_to_field(number)
