"""Tuning: the probes compute what they should, and what times say. Nothing is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from slate_port import SlateBackend

from xlac_sdk.dtypes import Array
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.kernel import Store
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.machine import measuring
from xlac_sdk.machine.measuring import Probes, RunCycles, TimedProbe
from xlac_sdk.machine_facts import LIMITS, TUNABLE
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request, Target
from xlac_sdk.tuning import conclusions, probe_kernels, timing, tune
from xlac_sdk.tuning.probe_kernels import DEEP, ROW

CPU = Target("toy", fma=True)
GPU = Target("toy", warp=32, block_threads=256, shared_bytes=1 << 14, access_bytes=4)
# bytes a second that pocl reads on a Zen 3 beside other work, by bytes from 4 KiB on
READ = (97, 136, 140, 137, 83.8, 79, 67.6, 54.3, 38.4, 27.6, 17.9, 20, 20.4, 21.4, 22)
ZEN3 = {4096 << n: rate * 1e9 for n, rate in enumerate(READ)}


def result(program: Program, *given: float) -> Array:
    """What a probe returns."""
    verify_program(program)
    (x,), (y,) = program.inputs, program.outputs
    out = np.zeros(y.size, y.dtype.numpy)
    Interpreter(program).run({"x": np.array(given).astype(x.dtype.numpy)}, {"y": out})
    return out


def test_the_chain_depends_on_every_step() -> None:
    last = 5
    for _ in range(3 * DEEP // 2):
        last = (last + 5) ^ 5
    assert result(probe_kernels.chain(3), 5, 0, 0, 0) == [last]


def test_readers_read_zeros() -> None:
    assert result(probe_kernels.reads(1024, 2, 16), 7, 0, 0, 0) == [7]
    assert result(probe_kernels.rows(3, 4096, 256, 2, 32), 9, 0, 0, 0) == [9]
    assert result(probe_kernels.launches(3), 4, 0, 0, 0) == [4]


@pytest.mark.parametrize("target", [CPU, replace(CPU, primitives=CPU.primitives)])
def test_sums_are_multiplied_and_added_to(target: Target) -> None:
    (got,) = result(probe_kernels.multiply_adds(4, 3, 2, target), 0.5, 1, 0, 0)
    assert got == sum(4 * ((n * 0.5 + 1) * 0.5 + 1) for n in range(3))


def test_a_function_is_summed() -> None:
    (got,) = result(probe_kernels.functions(Primitive.EXP, 4, 32, 3), 0.5, 0, 0, 0)
    assert got == 0.5 + 3 * 32


def test_threads_meet_and_copy_and_exchange() -> None:
    busy = result(probe_kernels.busy(2, 4, 1, 1, GPU), 0.5, 0, 0, 0)
    assert busy.tolist() == [n / 2 + 3 - n for n in range(4)] * 2
    assert result(probe_kernels.copies(2, 4, 2, 3), 6, 0, 0, 0) == [6]
    assert result(probe_kernels.elementwise(2, 4, 2, 3, 2), 6, 0, 0, 0) == [6]
    assert result(probe_kernels.exchanged_sums(2, 8, 4), 1, 0, 0, 0).tolist() == [4.0] * 4
    assert ROW % 64 == 0


def test_levels_of_memory() -> None:
    assert conclusions.levels(ZEN3) == (32 << 10, 512 << 10)
    flat = dict.fromkeys(ZEN3, 1e9)
    assert conclusions.levels(flat) == ()
    three = {
        1 << n: 1e9 * (64 if n < 16 else 32 if n < 20 else 16 if n < 24 else 8)
        for n in range(12, 27)
    }
    assert conclusions.levels(three) == (1 << 15, 1 << 19, 1 << 23)


def test_choices_by_rates() -> None:
    widths = {4: 2.2, 8: 4.5, 16: 9.1, 32: 18.1, 64: 19.5, 128: 2.1}
    assert conclusions.narrowest(widths) == 32
    assert conclusions.widest({32: 22, 64: 24, 128: 25, 256: 24.9}) == 256
    assert conclusions.fastest({8: 6.66, 16: 7.2, 32: 7.03}, 32) == 32
    assert conclusions.fastest({8: 6.66, 16: 9.2, 32: 7.03}, 32) == 16
    assert (
        conclusions.registers({12: 23, 14: 25, 24: 29, 28: 19, 48: 16, 56: 16}, tune.REGISTERS)
        == 16
    )
    assert (
        conclusions.registers({12: 23, 14: 25, 24: 29, 28: 29, 48: 16, 56: 16}, tune.REGISTERS)
        == 32
    )
    assert conclusions.at_once({1: 1.0, 2: 1.1, 4: 1.9, 8: 3.8}) == 2


def timed(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[Program], float]) -> None:
    """Programs are not run: they take the time that a model of a device says."""

    def times(runs: Mapping[str, Callable[[], Program]], _: float = 0) -> dict[str, float]:
        return {name: seconds(run()) for name, run in runs.items()}

    def sampled(probe: TimedProbe, probes: Probes) -> str:
        return probe.name

    def summary(name: str, cycles: float) -> RunCycles:
        rate = {"l1": 32, "l2_part": 16, "l2_most": 16, "rows_stride": 8, "memory": 4}.get(name, 16)
        return RunCycles(tune.MOVED / rate, 0.01, 15, 15)

    monkeypatch.setattr(tune, "compiled", lambda program, backend, target: lambda: program)
    monkeypatch.setattr(timing, "least", times)
    monkeypatch.setattr(measuring, "sampled", sampled)
    monkeypatch.setattr(measuring, "summary", summary)


def test_a_processor_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(program: Program) -> float:
        kernel = program.kernels[0]
        if kernel.name == "nothing":
            return 1e-5 + 1e-6 * len(program.steps)
        if kernel.name == "read":
            nbytes = program.slots[1].nbytes
            return 1e-6 + max(nbytes, tune.MOVED) / ZEN3[1 << (nbytes - 1).bit_length()]
        lanes, sums = kernel.body[0].value.lanes, len(kernel.body) - 4  # type: ignore[union-attr]
        vectors = -(-lanes // 8) * sums * (1 if sums <= 14 or lanes > 8 else 1.6)
        return 1e-6 + vectors * 1e-5

    timed(monkeypatch, seconds)
    lines = list[str]()
    made = tune.tune(SlateBackend(), CPU, lines.append)
    assert made.facts["vector_bytes"] == 32 and made.facts["vector_registers"] == 16
    assert (made.facts["l1_bytes"], made.facts["l2_bytes"]) == (32 << 10, 512 << 10)
    assert made.facts["l2_rate"] == 16 and made.facts["stride_penalty"] == 1
    assert made.measured["launch_us"] == 1 and made.measured["call_us"] == 10
    assert all((TUNABLE.get(name) or LIMITS[name]).holds(v) for name, v in made.facts.items())
    assert "→ vector_bytes 32" in lines


def test_what_two_measurements_do_not_both_say_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time other work is in the way: caches seem smaller, and wide vectors slower."""
    turns = iter(range(100))

    def seconds(program: Program) -> float:
        kernel = program.kernels[0]
        if kernel.name == "nothing":
            return 1e-5
        busy = now[0] % 2
        if kernel.name == "read":
            nbytes = program.slots[1].nbytes << (2 * busy)
            size = min(1 << (nbytes - 1).bit_length(), max(ZEN3))
            return 1e-6 + max(nbytes, tune.MOVED) / ZEN3[size]
        lanes = kernel.body[0].value.lanes  # type: ignore[union-attr]
        return 1e-6 + 1e-5 * (-(-lanes // (4 if busy else 8)))

    timed(monkeypatch, seconds)
    now, least = [0], timing.least

    def counted(*given: Any) -> dict[str, float]:
        now[0] = next(turns)
        return least(*given)

    monkeypatch.setattr(timing, "least", counted)
    lines = list[str]()
    made = tune.tune(SlateBackend(), CPU, lines.append)
    assert not {"vector_bytes", "l1_bytes"} & set(made.facts)
    assert any(
        line.startswith("left out: vector_bytes is not steady (32, then 16)") for line in lines
    )
    assert any(
        line.startswith("left out: l1_bytes is not steady (32768, then 8192)") for line in lines
    )


def test_a_gpu_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Open(SlateBackend):
        warps = (8, 16, 32, 64)

    def seconds(program: Program) -> float:
        kernel = program.kernels[0]
        match kernel.name:
            case "nothing":
                return 1e-5 + 1e-6 * len(program.steps)
            case "copy":
                return 1e-6 + 1e-3 / program.slots[1].dtype.nbytes / kernel.parameters[1].align
            case "elementwise":  # the fastest threads take 8 bytes, in one access
                body = kernel.body[0].body[0].body  # type: ignore[union-attr]
                stores = sum(isinstance(step, Store) for step in body)
                return 1e-6 + abs(4 * stores * kernel.parameters[1].align - 8)
            case "exchange":  # rows take as long whatever the warp, but for one
                rows = program.outputs[0].size
                return rows * (0.5 if rows == 64 and "16" in str(kernel.body) else 1.0)
        blocks = int(kernel.body[0].stop.value)  # type: ignore[union-attr]
        return 1e-6 + 1e-4 * max(1, blocks / 8)

    timed(monkeypatch, seconds)
    made = tune.tune(Open(), GPU)
    assert made.facts["access_bytes"] == 16 and made.facts["thread_bytes"] == 8
    assert made.facts["processors"] == 8
    assert made.facts["block_threads"] == 256 and made.facts["warp"] in Open.warps


def test_a_device_that_refuses_a_width_has_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda program: 1e-3)

    def refusing(program: Program, backend: object, target: Target) -> Callable[[], Program]:
        if program.slots[1].name == "source" and program.kernels[0].parameters[1].align > 1:
            from xlac_sdk.source import Diagnostic

            raise UnsupportedError(Diagnostic("XL5023", "no vectors"))
        return lambda: program

    monkeypatch.setattr(tune, "compiled", refusing)
    lines = list[str]()
    assert tune.tune(SlateBackend(), GPU, lines.append).facts["access_bytes"] == 4
    assert "left out: no vectors" in lines


def test_a_target_takes_the_facts_of_its_device() -> None:
    plain = SlateBackend().target(Request())
    mine, other = (("vector_bytes", 64), ("l2_rate", 30.0)), (("vector_bytes", 8),)
    kept = Request(tuned=((plain.identity, mine), ("another device", other)))
    made = SlateBackend().target(kept)
    assert made.vector_bytes == 64 and made.hardware.l2_rate == 30
    assert made.shipped.hardware == plain.hardware and made.shipped.vector_bytes == 64
    assert SlateBackend().target(Request(tuned=(("another device", other),))) == plain
    assert SlateBackend().target(Request(tuned=(("", other),))).vector_bytes == 8


def test_a_backend_that_takes_none_is_refused() -> None:
    class Deaf(SlateBackend):
        def target(self, request: Request) -> Target:
            return CPU

    tune.require_tuned(SlateBackend(), Request())
    with pytest.raises(UnsupportedError, match="takes no tuned facts"):
        tune.require_tuned(Deaf(), Request())
