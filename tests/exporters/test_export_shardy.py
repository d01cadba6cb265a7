"""How exported StableHLO says that values are divided among ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from xlac.exporters import stablehlo
from xlac.exporters.left_out import LeftOutWarning
from xlac.frontends.loader import load
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac.ops.collective.shard import Shard

SPEC = """\
xlac: 1
model: parts
mesh: {"a b": 2, model: 2}
shard: {"*.weight": [model, null], x: [a b, null]}
inputs: {x: "f32[4, 8]", y: "f32[8]"}
weights: {init: {seed: 0}}
graph:
  a: {op: linear, in: x, units: 8}
  b: {op: linear, in: a + y, units: 8}
  s: {op: shard, in: b, axes: [null, [model, a b]]}
  r: relu(s)
outputs: [r]
"""
XLA = """\
import sys
import numpy as np
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir

backend, context = xla_bridge.get_backend("cpu"), mlir.make_ir_context()
with context, ir.Location.unknown(context):
    module = ir.Module.parse(open(sys.argv[1]).read())
    options = xla_client.CompileOptions()
    options.num_partitions = 4
    build = options.executable_build_options
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    build.num_partitions = 4
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(4).reshape(1, 4))
    devices = xla_client.DeviceList(tuple(backend.local_devices()))
    compiled = backend.compile_and_load(module, devices, options, [])
print(compiled.hlo_modules()[0].to_string())
"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    path = tmp_path / "parts.yaml"
    path.write_text(SPEC, "utf-8")
    return load(path)


def test_divisions_are_read_again(model: Model, tmp_path: Path) -> None:
    file = tmp_path / "parts.mlir"
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftOutWarning)
        stablehlo.write(model, file)
    again = load(file)
    assert again.ranks is not None
    assert dict(again.ranks.mesh) == {"a b": 2, "model": 2}
    assert {name: said.axes for name, said in again.ranks.params.items()} == {"x": (("a b",), ())}
    shards = [node.op.axes for node in again.graph.nodes() if isinstance(node.op, Shard)]
    assert shards == [(("model",), None), (("model",), None), (None, ("model", "a b"))]
    x, y = np.ones((4, 8), np.float32), np.arange(8, dtype=np.float32)
    (was,) = interpret(model.graph, {"x": x, "y": y}, model.weights).values()
    (now,) = interpret(again.graph, {"x": x, "y": y}, again.weights).values()
    np.testing.assert_allclose(was, now, rtol=1e-5, atol=1e-5)


def test_xla_divides_the_module_so(model: Model, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    file = tmp_path / "parts.mlir"
    stablehlo.write(model, file)
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", XLA, file],
        env=os.environ | flags,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (entry,) = [line for line in done.stdout.splitlines() if line.startswith("ENTRY")]
    assert "f32[2,8]" in entry and "-> f32[4,2]" in entry
