"""Models that are compiled as sizes, and values that decide sizes, come: from many threads at once,
and without growing for ever.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Barrier, Lock, Thread
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.model import Undecided
from xlac.runtime import programs
from xlac.runtime.growing import Growth
from xlac.runtime.specialization import Specializing

THREADS = 8
SPEC = """\
xlac: 1
model: scaled
params: {k: 1, j: 1}
dims: {n: {min: 1, max: 4096}}
inputs: {x: 'f32[n]'}
graph: {y: x * $k + $j}
outputs: [y]
"""


def deciding(tmp_path: Path) -> Specializing:
    """A model whose inputs k and j have to be known before it is compiled; that of j is found when
    that of k is known.
    """
    file = tmp_path / "scaled.yaml"
    file.write_text(SPEC)
    whole = xlac.compile(file, "reference")
    assert isinstance(whole, Specializing)
    interface = replace(whole.interface, inputs=("x", "k", "j"))

    def compile_for(sizes: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
        wanted = frozenset({"k"} if "k" not in values else {"k", "j"})
        if not wanted <= values.keys():
            raise Undecided(replace(interface, values=wanted))
        chosen = {name: int(value) for name, value in values.items()}
        if not isinstance(sizes["n"], int):
            return xlac.compile(file, "reference", params=chosen, sizes="symbolic")
        return xlac.compile(file, "reference", params=chosen, dims=sizes)

    return Specializing(interface, compile_for, grows=True)


def at_once(work: Callable[[int], None]) -> None:
    """The same in many threads, which begin together. Raises what one of them raised first."""
    begun, errors, lock = Barrier(THREADS), [], Lock()

    def one(number: int) -> None:
        begun.wait()
        try:
            work(number)
        except BaseException as error:
            with lock:
                errors.append(error)

    threads = [Thread(target=one, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_values_that_decide_are_found_by_threads_at_once(tmp_path: Path) -> None:
    for again in range(5):
        model = deciding(tmp_path)

        def work(number: int, model: Specializing = model, again: int = again) -> None:
            random = Random(8 * again + number)
            for _ in range(10):
                n, k, j = random.choice((3, 4)), random.randint(1, 2), random.randint(0, 1)
                found = model(np.ones(n, np.float32), k, j)
                np.testing.assert_array_equal(found, np.full(n, k + j, np.float32))

        at_once(work)


def test_what_is_remembered_of_values_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "PROGRAMS", 8)
    model, x = deciding(tmp_path), np.ones(3, np.float32)
    before = sum(isinstance(one, Growth) for one in gc.get_objects())
    for k in range(20):
        assert (model(x, k, 1) == k + 1).all()
    gc.collect()
    assert model.programs == 8
    assert sum(isinstance(one, Growth) for one in gc.get_objects()) - before <= 8


def test_what_is_remembered_of_sizes_is_bounded() -> None:
    """Sizes of which one can never be open, and comes with ever new values."""
    from xlac.ir.dims import Symbol

    met = Growth([Symbol("n"), Symbol("k")])
    for k in range(2, 400):
        for n in (5, 6):
            found = met.choose({"n": n, "k": k})
            if found is not None and "k" in found.names:
                met.refuse(found)
                found = met.choose({"n": n, "k": k})
    assert 0 < len(met._open) <= 64 and len(met._met) <= 64


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_sizes_from_threads_at_once(tmp_path: Path, target: str) -> None:
    file = tmp_path / "scaled.yaml"
    file.write_text(SPEC)
    model = xlac.compile(file, target)

    def work(number: int) -> None:
        random = Random(number)
        for _ in range(40):
            n = random.randint(1, 40)
            x, out = np.full(n, number, np.float32), np.empty(n, np.float32)
            if random.random() < 0.5:
                out = model(x)
            else:
                model.run({"x": x}, {"y": out})
            np.testing.assert_array_equal(out, x + 1)

    at_once(work)
