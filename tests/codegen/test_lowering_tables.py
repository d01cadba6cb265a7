"""The tables of `codegen/lower.py`: every kind has a lowering on each device that has it, and only
what is asked for is imported.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from inspect import Parameter, signature

import pytest

from xlac.codegen import claims, lower
from xlac.fusion.group import Kind
from xlac.ir.op import OPS

HOST = {Kind.CLAIMED, Kind.CONTROL, Kind.COLLECTIVE}
NOT_ON_A_GPU = {Kind.MATRIX}  # its operations are expanded there


@pytest.mark.parametrize(
    ("table", "without"), [(lower.CPU, HOST), (lower.GPU, HOST | NOT_ON_A_GPU)], ids=["cpu", "gpu"]
)
def test_every_kind_has_a_lowering(table: dict[Kind, str], without: set[Kind]) -> None:
    assert set(table) == set(Kind) - without


@pytest.mark.parametrize(
    "module", sorted({*lower.CPU.values(), *lower.GPU.values(), *lower.GPU_OPERATIONS.values()})
)
def test_a_lowering_takes_what_it_is_given(module: str) -> None:
    first, more = [], []
    for parameter in signature(import_module(module).lower).parameters.values():
        (first if len(first) < 4 else more).append(parameter)
    assert [p.name for p in first] == ["group", "target", "name", "lower_part"]
    assert all(p.default is not Parameter.empty for p in more)


def test_what_else_is_named_is_there() -> None:
    assert set(lower.GPU_OPERATIONS) <= set(OPS)
    assert set(claims.TAKEN) <= set(OPS)
    for module in claims.ATTENTION.values():
        assert callable(import_module(module).takes)
    assert callable(import_module(lower.LIBRARY).called)


CPU_ONLY = """
import sys
from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.scalar.arithmetic import Add
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

x = Node.of(Param("x", Type(DType.F32, (8,)), "input"))
y = Node.of(Add(), x, x)
assert lower(Group(Kind.ELEMENTWISE, y, (y,), (x,), (y,)), Target("t"), "k").launches
print(*sorted(m for m in sys.modules if m.startswith("xlac.codegen.")))
"""


def test_a_cpu_imports_no_lowering_of_gpus_and_libraries() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CPU_ONLY], check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    loaded = run.stdout.split()
    assert "xlac.codegen.cpu.elementwise" in loaded
    others = ("xlac.codegen.gpu", "xlac.codegen.library", "xlac.codegen.cpu.gemm")
    assert not [m for m in loaded if m.startswith(others)]
