"""What a compilation may take: every stage looks, the message names it, and what cannot be
interrupted is ended.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac_sdk.host import tool
from xlac_sdk.source import LimitError
from xlac_sdk.support import limits

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "specs" / "mlp_small.yaml"
STAGES = (
    "reading the model", "pass simplify", "pass expand", "pass cse-2", "fusion",
    "the kernels", "the memory plan", "writing the code", "building the code", "loading the code",
)  # fmt: skip


class Clock:
    """A clock and a memory that jump when a stage begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
        self.now, self.held = 0.0, 0
        plain = limits.checkpoint

        def look(name: str) -> None:
            plain(name)
            if name == stage:
                self.now, self.held = 100.0, 1 << 40

        monkeypatch.setattr(limits.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(limits, "resident", lambda: self.held)
        for module in (
            "xlac.frontends.loader",
            "xlac.passes.pipeline",
            "xlac.driver",
            "xlac.runtime.built",
        ):
            monkeypatch.setattr(f"{module}.checkpoint", look)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")


@pytest.mark.parametrize("stage", STAGES)
def test_the_stage_that_takes_too_long_is_named(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch, stage)
    with pytest.raises(LimitError, match="XL4031") as caught:
        xlac.compile(SPEC, target="reference", max_compile_seconds=50)
    assert f"it was at: {stage}" in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("stage", STAGES)
def test_the_stage_that_takes_too_much_memory_is_named(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch, stage)
    with pytest.raises(LimitError, match="XL4032") as caught:
        xlac.compile(SPEC, target="reference", max_compile_memory=1 << 30)
    assert f"it was at: {stage}" in str(caught.value)


def test_limits_that_suffice_change_nothing() -> None:
    x = np.ones((64, 64), np.float32)
    plain = xlac.compile(SPEC)
    bounded = xlac.compile(SPEC, max_compile_seconds=1000, max_compile_memory=8 << 30)
    inputs = {name: np.ones(shape_of(plain, name), np.float32) for name in plain.inputs}
    np.testing.assert_array_equal(np.asarray(plain(**inputs)), np.asarray(bounded(**inputs)))
    assert not limits.limited() and x is not None


def shape_of(program: xlac.Compiled, name: str) -> tuple[int, ...]:
    slot = next(slot for slot in program.program.slots if slot.name == name)
    return tuple(int(str(size)) for size in slot.shape)


def test_llvm_is_ended_in_time_and_gets_no_more_memory_than_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch, pytest.raises(LimitError, match="XL4031"):
        patch.setattr(limits, "left", lambda: 0.01)
        xlac.compile(SPEC, max_compile_seconds=1000)
    with pytest.raises(LimitError, match="XL4032"):
        monkeypatch.setattr(limits, "room", lambda: 1 << 20)
        xlac.compile(SPEC, max_compile_memory=8 << 30)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no groups of processes here")
def test_a_tool_that_is_ended_takes_along_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a compiler's driver, which waits for the compiler itself."""
    monkeypatch.setattr(limits, "left", lambda: 0.5)
    os.mkfifo(tmp_path / "held")
    end = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(subprocess.TimeoutExpired):
        tool.run(["sh", "-c", "sleep 9999 > held & wait"], tmp_path)
    with os.fdopen(end, "rb", buffering=0) as pipe:
        while pipe.read(1) is None:  # somebody holds its other end; the test's limit ends this
            time.sleep(0.01)


def test_programs_are_kept_and_found_whatever_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path))
    xlac.compile(SPEC, max_compile_seconds=1000)
    with monkeypatch.context() as patch:
        patch.setattr("xlac.driver.compile", None)  # nobody compiles again
        assert xlac.compile(SPEC) is not None
        assert xlac.compile(SPEC, max_compile_memory=1 << 40) is not None


def test_each_program_of_a_model_with_open_sizes_has_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "open.yaml"
    spec.write_text(
        "xlac: 1\nmodel: m\ndims: {n: {max: 100}}\ninputs: {x: 'f32[n]'}\ngraph: {y: x * "
        "2.0}\noutputs: [y]\n"
    )
    model = xlac.compile(spec, target="reference", max_compile_seconds=50)
    assert np.asarray(model(np.ones(3, np.float32))).tolist() == [2, 2, 2]
    clock = Clock(monkeypatch, "fusion")
    with pytest.raises(LimitError, match="XL4031"):
        model(np.ones(4, np.float32))
    clock.now = 0
    assert np.asarray(model(np.ones(3, np.float32))).tolist() == [2, 2, 2]  # which is there already


@pytest.mark.parametrize(("options", "code"), [
    (["--max-compile-seconds", "0.000001"], 4),
    (["--max-compile-memory", "4G", "--max-compile-seconds", "600"], 0),
    (["--max-compile-seconds", "-1"], 2), (["--max-compile-memory", "much"], 2),
])  # fmt: skip
@pytest.mark.parametrize("verb", ["check", "run", "expand", "explain"])
def test_commands_take_limits(
    verb: str, options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status([verb, str(SPEC), *options]) == code


def test_inner_limits_keep_to_outer_ones() -> None:
    def make(count: int) -> None:
        for _ in range(count):
            limits.count_operation()

    with pytest.raises(LimitError, match="XL4018"), limits.within(operations=10):
        with limits.within(operations=100):
            make(6)
        with limits.within(operations=100):
            make(6)
    with limits.within(operations=10), pytest.raises(LimitError), limits.within(operations=3):
        make(4)
    make(1000)


def test_nothing_is_measured_where_nothing_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Iterator[None]:
        raise AssertionError

    monkeypatch.setattr(limits, "resident", never)
    monkeypatch.setattr(limits.time, "monotonic", never)
    limits.checkpoint("anything")
    limits.count_operation()
    assert limits.left() is None and limits.room() is None and not limits.limited()
