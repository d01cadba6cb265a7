"""A program that nobody refers to any more leaves nothing mapped: its library is closed."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

import xlac

MAPS = Path("/proc/self/maps")
SPEC = (
    "xlac: 1\nmodel: m\nparams: {k: 2.0}\ninputs: {x: 'f32[4]'}\ngraph: {y: x * $k}\noutputs: [y]\n"
)
pytestmark = pytest.mark.skipif(not MAPS.exists(), reason="the system does not tell what is mapped")


@pytest.mark.parametrize("target", ["c", "cpu"])
def test_its_library_is_closed(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XLAC_CACHE", str(cache))
    spec = tmp_path / "m.yaml"
    spec.write_text(SPEC)
    xlac.compile(spec, target)  # the second finds it, and cpu maps what was kept
    for _ in range(2):
        made = xlac.compile(spec, target)
        function = made if target == "c" else made.executable.fast
        x = np.arange(4, dtype="f4")
        mapped = [line for line in MAPS.read_text().splitlines() if str(cache) in line]
        assert any("r-xp" in line for line in mapped)
        del made
        gc.collect()
        np.testing.assert_array_equal(function(x), 2 * x)  # what is called keeps it open
        del function
        gc.collect()
        assert str(cache) not in MAPS.read_text()


def test_programs_share_linkers_that_go_when_they_are_gone() -> None:
    from xlac_cpu.llvm import link
    from xlac_cpu.run import fastcall

    alive = []
    linkers: weakref.WeakSet[object] = weakref.WeakSet()
    for _ in range(3 * link.SHARING):
        code, addresses = link.load([fastcall.object_code()], fastcall.EXPORTS)
        assert all(addresses.values())
        linkers.add(code[0])
        alive.append(code)
    assert len(linkers) >= 3
    del code
    alive.clear()
    gc.collect()
    assert len(linkers) <= 2  # the present one, and the first, which other tests' programs may use


def test_after_a_linker_that_could_not_be_made_the_next_program_makes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import llvmlite.binding as llvm

    from xlac_cpu.llvm import link
    from xlac_cpu.run import fastcall

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(link, "_linker", [])
    with monkeypatch.context() as patch:
        patch.setattr(llvm, "create_lljit_compiler", refuse)
        with pytest.raises(RuntimeError, match="no memory"):
            link.load([fastcall.object_code()], fastcall.EXPORTS)
    _, addresses = link.load([fastcall.object_code()], fastcall.EXPORTS)
    assert all(addresses.values())
