"""Faults that numbers alone do not tell, planted: races, lifetimes, packed weights, stale code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planting import PRODUCT, spoil

import xlac
from xlac.codegen.core.lowered_group import PackedConstant
from xlac.debug.verify import causes
from xlac.ir.op import Array
from xlac.memory.constants import ConstantSlots
from xlac.memory.lifetimes import Lifetimes
from xlac.runtime import built
from xlac_cpu.emit import module as emitter
from xlac_sdk.backend import Backend
from xlac_sdk.kernel_ir import build as kernels
from xlac_sdk.kernel_ir.kernel import For, Kernel, LoopKind, Store
from xlac_sdk.programs.program import Program, Slot
from xlac_sdk.target import Target

SPECS = Path(__file__).parents[2] / "specs"
pytestmark = pytest.mark.usefixtures("own_cache")


def racing(kernel: Kernel) -> Kernel:
    """Every iteration of the parallel loop writes to the first element of the result, too."""
    loop = kernel.parallel
    if loop is None:
        first = kernel.body[0]
        assert isinstance(first, For)
        loop = replace(first, kind=LoopKind.PARALLEL)
    out = kernel.parameters[-1]
    value = kernels.cast(loop.counter, out.dtype)
    more = Store(out, kernels.lift(0), value)
    return replace(kernel, body=(replace(loop, body=(*loop.body, more)),))


def test_a_race(cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, racing, lambda group: True)
    said = cause('xlac: 1\ninputs: {a: "f32[64, 64]"}\noutputs: {y: exp(a)}\n')
    assert said.startswith("a race") and "kernel exp" in said


def test_wrong_lifetimes(cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Values die one step after they are made; found when the plan is verified, and also where
    that is not done, by what is in memory.
    """
    use, seen = Lifetimes.use, set[tuple[int, Slot]]()

    def once(self: Lifetimes, slot: Slot) -> None:
        if (id(self), slot) not in seen:
            use(self, slot)
        seen.add((id(self), slot))

    monkeypatch.setattr(Lifetimes, "use", once)
    bert = (SPECS / "bert_layer.yaml").read_text("utf-8").replace("opt: 128", "opt: 8")
    assert "share memory while both are live" in cause(bert)
    seen.clear()
    unverified: Callable[[Program], None] = lambda program: None
    for module in (causes, emitter):
        monkeypatch.setattr(module, "verify_program", unverified)
    assert cause(bert).startswith("a wrong lifetime: the memory of")


@pytest.mark.parametrize("how", ["rolled", "half", "scaled"])
def test_wrong_packed_weights(
    how: str, cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    true = ConstantSlots._made

    def made(self: ConstantSlots, packed: PackedConstant) -> Array:
        found = true(self, packed).copy()
        if how == "rolled":
            return np.roll(found, 1)
        found[: found.size // 2 if how == "half" else None] *= 1.001
        return found

    monkeypatch.setattr(ConstantSlots, "_made", made)
    assert cause(PRODUCT).startswith("wrong packed weights")


def test_a_stale_entry_of_the_cache(
    tmp_path: Path, cause: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that does not tell two numbers apart: one program gets the code of the other."""
    true = built.key_of

    def blind(backend: Backend, target: Target, sources: Mapping[str, str]) -> str:
        same = {name: re.sub("0x[0-9A-Fa-f]+", "", text) for name, text in sources.items()}
        return true(backend, target, same)

    monkeypatch.setattr(built, "key_of", blind)
    first = 'xlac: 1\nmodel: m\ninputs: {a: "f32[64]"}\noutputs: {y: a * 2.0}\n'
    (tmp_path / "other.yaml").write_text(first, "utf-8")
    assert xlac.verify(tmp_path / "other.yaml", draws=["random"]).right
    assert cause(first.replace("2.0", "3.0")).startswith("a stale entry of the cache")
