"""Faults are planted in kernels; `verify` says what is at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from xlac.codegen import kernel_dedup
from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.target import Target

PRODUCT = """xlac: 1
model: product
weights: {init: {seed: 3, tensors: {"*": {scheme: normal, std: 0.1}}}}
inputs: {a: "f32[32, 64]"}
graph:
  h: {op: linear, in: a, units: 96}
  r: relu(h)
  y: {op: linear, in: r, units: 48}
outputs: [y]
"""

Change = Callable[[Kernel], Kernel]


def spoil(monkeypatch: pytest.MonkeyPatch, change: Change, only: Callable[[Group], bool]) -> None:
    def lowered(group: Group, target: Target, name: str, decisions: Decisions) -> LoweredGroup:
        made = lower(group, target, name, decisions)
        if not only(group):
            return made
        launches = tuple(replace(one, kernel=change(one.kernel)) for one in made.launches)
        return replace(made, launches=launches)

    monkeypatch.setattr(kernel_dedup, "lower", lowered)
