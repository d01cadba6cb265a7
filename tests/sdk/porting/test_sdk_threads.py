"""Programs called by two threads: on every port, one waits until the other's work has ended."""

from __future__ import annotations

import ctypes
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import hosted_slate
import numpy as np
import pytest
from host_programs import HostProgram
from hosted_slate import HostedSlate
from one_thread import OneThread, one_thread

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.conformance import ConformanceCase, cases
from xlac_sdk.device import Device
from xlac_sdk.dtypes import Array
from xlac_sdk.host.runner import Runner
from xlac_sdk.programs.program import Program
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
# a port's module, its backend, and where that finds the SDK's runner
PORTS = {
    "slate": ("slate_port", "SlateBackend", "slate_port"),
    "board": ("board_port", "BoardBackend", "board_port"),
    "opencl": ("xlac_opencl.backend", "OpenCLBackend", "xlac_sdk.host.ports.text_backend"),
}


def loaded(backend: Backend, folder: Path) -> tuple[Executable, ConformanceCase]:
    """A case whose second kernel reads what the first wrote, on a backend."""
    target = backend.target(Request())
    (case,) = (case for case in cases(target) if case.name == "a scan from the end")
    artifact = backend.build(backend.emit(case.program, target), folder)
    return backend.load(artifact, case.program, target), case


def called(executable: Executable, case: ConformanceCase) -> Array:
    """The output of a call."""
    (slot,) = case.program.outputs
    made = np.zeros(slot.extents({}), slot.dtype.numpy)
    executable.run(case.inputs, {slot.name: made})
    return made


def by_two_threads(
    executable: Executable, case: ConformanceCase, inside: Callable[[], bool]
) -> list[Array | BaseException]:
    """The results of two calls, of which the second begins when the first is `inside` a launch."""
    results: list[Array | BaseException] = []

    def call() -> None:
        try:
            results.append(called(executable, case))
        except BaseException as error:
            results.append(error)

    first, second = (threading.Thread(target=call) for _ in range(2))
    first.start()
    while first.is_alive() and not inside():
        time.sleep(0.001)
    assert inside()
    second.start()
    first.join()
    second.join()
    return results


@needs_cc
@pytest.mark.parametrize("port", PORTS)
def test_a_call_waits_for_that_of_another_thread(
    port: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module, name, runs = PORTS[port]
    backend = getattr(pytest.importorskip(module), name)()
    devices: list[OneThread] = []

    def runner(device: Device, program: Program) -> Runner:
        devices.append(OneThread(device))
        return Runner(devices[-1], program)

    wanted = None
    for watched in (False, True):
        if watched:
            monkeypatch.setattr(f"{runs}.Runner", runner)
        try:
            executable, case = loaded(backend, tmp_path)
        except UnsupportedError as error:
            pytest.skip(str(error))
        if not watched:
            wanted = called(executable, case)
            continue
        for made in by_two_threads(executable, case, devices[0].inside.is_set):
            np.testing.assert_array_equal(made, wanted)


@needs_cc
def test_a_call_from_c_waits_for_that_of_another_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = called(*loaded(HostedSlate(), tmp_path))
    monkeypatch.setattr(hosted_slate, "DRIVER", one_thread(hosted_slate.DRIVER))
    executable, case = loaded(HostedSlate(), tmp_path)
    assert isinstance(executable, HostProgram)
    flag = ctypes.c_int.in_dll(executable.library, "device_begun")
    for made in by_two_threads(executable, case, lambda: bool(flag.value)):
        np.testing.assert_array_equal(made, wanted)


@needs_cc
def test_a_context_in_use_refuses_another_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever it calls; nothing is changed, and the context is free again when the call ends."""
    monkeypatch.setattr(hosted_slate, "DRIVER", one_thread(hosted_slate.DRIVER))
    program, case = loaded(HostedSlate(), tmp_path)
    assert isinstance(program, HostProgram)
    wanted: list[Array | BaseException] = []
    thread = threading.Thread(target=lambda: wanted.append(called(program, case)))
    thread.start()
    flag = ctypes.c_int.in_dll(program.library, "device_begun")
    while thread.is_alive() and not flag.value:
        time.sleep(0.001)
    (slot,) = case.program.outputs
    made = np.full(slot.extents({}), 7, slot.dtype.numpy)
    arrays = [*case.inputs.values(), made]
    statuses = [
        program.call("run", program.context, *(ctypes.c_void_p(a.ctypes.data) for a in arrays)),
        program.call("reset", program.context),
    ]
    told = program.text("message", program.context)
    assert thread.is_alive(), "the first call ended before the second began"
    thread.join()
    assert [program.text("status_text", status) for status in statuses] == [
        "another thread's call uses the context"
    ] * 2
    assert (made == 7).all() and not told
    np.testing.assert_array_equal(wanted[0], called(program, case))
