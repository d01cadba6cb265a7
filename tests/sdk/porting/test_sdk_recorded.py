"""A device with command buffers: what is recorded once is submitted at every call."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import slate_port
from slate_port import SlateBackend, SlateDevice

from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac_sdk.conformance import cases, check
from xlac_sdk.device import CopyEnd, MemoryPlace
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.target import Request

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")


class RecordingSlate(SlateDevice):
    """Keeps what it is asked for while it records, and does it when the record is submitted."""

    def __init__(self, library: Path) -> None:
        super().__init__(library)
        self.record: list[Callable[[], None]] | None = None
        self.records: list[int] = []  # the length of each
        self.submitted = 0

    def recorded(self, calls: Sequence[Callable[[], object]]) -> Sequence[Callable[[], object]]:
        self.record = made = []
        for call in calls:
            call()
        self.record = None
        self.records.append(len(made))

        def submit() -> None:
            self.submitted += 1
            for work in made:
                work()

        return [submit]

    def launch(
        self, kernel: Kernel, places: tuple[MemoryPlace, ...], sizes: tuple[int, ...]
    ) -> None:
        if self.record is None:
            super().launch(kernel, places, sizes)
        else:
            self.record.append(lambda: super(RecordingSlate, self).launch(kernel, places, sizes))

    def copy(self, target: CopyEnd, source: CopyEnd, nbytes: int) -> None:
        if self.record is None:
            super().copy(target, source, nbytes)
        else:
            self.record.append(lambda: super(RecordingSlate, self).copy(target, source, nbytes))


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[RecordingSlate]:
    made: list[RecordingSlate] = []

    def device(library: Path) -> RecordingSlate:
        made.append(RecordingSlate(library))
        return made[-1]

    monkeypatch.setattr(slate_port, "SlateDevice", device)
    return made


def test_steps_conform(devices: list[RecordingSlate]) -> None:
    """Loops, branches, state, choices by size, threads."""
    backend, target = SlateBackend(), SlateBackend().target(Request())
    for case in [case for case in cases(target) if case.group == "steps"]:
        wrong = [o.detail for o in check(case, backend, target) if o.status != "passed"]
        assert not wrong, "\n".join(wrong)
    assert any(device.submitted for device in devices)


def test_a_scan_is_few_records(devices: list[RecordingSlate]) -> None:
    """A loop of known length is unrolled into one, which every call of these sizes submits; steps
    on arrays that may be the caller's are not recorded.
    """
    spec = Path(__file__).parents[3] / "specs" / "lstm_3x60.yaml"
    run = executable(lower(load(spec), SlateBackend().target(Request())), SlateBackend())
    (device,) = devices
    x = np.zeros([n if isinstance(n, int) else 2 for n in run.program.inputs[0].shape], np.float32)
    first = run(x)["y"]
    records, submitted = list(device.records), device.submitted
    assert len(records) == submitted <= 3 and max(records) > 20
    np.testing.assert_array_equal(run(x)["y"], first)
    assert device.records == records and device.submitted == 2 * submitted
