"""NAME_size says what calls of some sizes need: with so much memory they run, and touch nothing
behind it.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packages import build

import xlac
from xlac_sdk.host.capi import Status
from xlac_sdk.host.capi.library import ContextStruct, Library, aligned
from xlac_sdk.programs.program import Program
from xlac_sdk.source import SourceError

BERT = (
    "--set",
    "hidden=64",
    "--set",
    "heads=4",
    "--set",
    "ffn=128",
    "--dim",
    "batch=1..8",
    "--dim",
    "sequence=1..64",
)
CASES = {
    "digits": (("--dim", "batch=1..300"), [{"batch": 1}, {"batch": 17}, {"batch": 300}]),
    "bert_layer": (
        BERT,
        [{"batch": 1, "sequence": 1}, {"batch": 2, "sequence": 33}, {"batch": 8, "sequence": 64}],
    ),
    "lstm_3x60": (("--dim", "B=1..4", "--dim", "T=32"), [{"B": 1}, {"B": 3}, {"B": 4}]),
}
WAYS = {
    "c": ("--target", "c", "--emit", "c,h,so"),
    "cpu": ("--target", "cpu", "--emit", "so"),
    "checked": ("--target", "cpu", "--emit", "so", "--checked"),
    "variant": ("--target", "cpu", "--emit", "so", "--variant"),
    "levels": ("--target", "cpu", "--emit", "so", "--cpu", "x86-64-v2,x86-64-v3"),
}
GUARD = 4096


def arrays(program: Program, sizes: dict[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(0)
    given = {
        s.name: rng.standard_normal(s.extents(sizes)).astype(s.dtype.numpy) for s in program.inputs
    }
    return given, {s.name: np.zeros(s.extents(sizes), s.dtype.numpy) for s in program.outputs}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spec", CASES)
@pytest.mark.sampled(10)
def test_so_much_memory_is_enough_and_needed(spec: str, way: str, tmp_path: Path) -> None:
    options, chosen = CASES[spec]
    extra = (
        *WAYS[way],
        *(["{}={}".format(*next(iter(chosen[0].items())))] if way == "variant" else []),
    )
    folder = build(spec, tmp_path / "out", *options, *extra)
    loaded = xlac.load(folder)
    library, program = loaded.executable, loaded.program
    assert isinstance(library, Library)
    whole = library._free[0].block
    needs = []
    for sizes in chosen:
        nbytes = int(library._size(ctypes.byref(library._sizes(sizes))))
        needs.append(nbytes)
        memory = aligned(nbytes + GUARD)
        memory[nbytes:] = 0xA5
        context = ContextStruct()
        given = (ctypes.byref(context), ctypes.c_void_p(memory.ctypes.data))
        assert library._init(*given, ctypes.c_size_t(nbytes)) == 0
        inputs, outputs = arrays(program, sizes)
        _, expected = arrays(program, sizes)
        library.run(inputs, expected)
        order = [
            *(inputs[s.name] for s in program.inputs),
            *(outputs[s.name] for s in program.outputs),
        ]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in order]
        assert library._run(given[0], ctypes.byref(library._sizes(sizes)), *pointers) == 0
        assert (memory[nbytes:] == 0xA5).all()
        for name, array in outputs.items():
            np.testing.assert_array_equal(array, expected[name])
        for other, wanted in zip(chosen, needs, strict=False):
            assert wanted <= nbytes, (other, sizes)
        before = [array.copy() for array in outputs.values()]
        for larger in chosen[len(needs) :]:
            if int(library._size(ctypes.byref(library._sizes(larger)))) > nbytes:
                assert (
                    library._run(given[0], ctypes.byref(library._sizes(larger)), *pointers)
                    == Status.SMALL_MEMORY.number
                )
        assert all((a == b).all() for a, b in zip(before, outputs.values(), strict=True))
    assert needs[0] < needs[-1] <= len(whole) or way == "checked"  # whose record is behind all else
    small = (
        ctypes.byref(context),
        ctypes.c_void_p(memory.ctypes.data),
        ctypes.c_size_t(min(needs) - 1),
    )
    assert library._init(*small) == Status.SMALL_MEMORY.number


def test_sizes_out_of_bounds_need_nothing(tmp_path: Path) -> None:
    library = xlac.load(build("digits", tmp_path / "out", "--dim", "batch=1..300")).executable
    assert isinstance(library, Library)
    for batch in (0, 301, -1, 1 << 40):
        assert library._size(ctypes.byref(library._sizes({"batch": batch}))) == 0
    assert library._size(None) == 0
    with pytest.raises(SourceError):
        library._check("init", Status.SMALL_MEMORY.number)
