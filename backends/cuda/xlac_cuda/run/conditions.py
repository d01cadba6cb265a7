"""Loops and branches decided on the device: kernels of one thread that set a graph's conditions.

The driver's graphs have loops since CUDA 12.4, branches among several since 12.8; with older ones
the host reads the flag.
"""

from __future__ import annotations

from importlib.resources import files

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.plan import Action, DeviceLoop, ExchangeDone, ExchangeStart, Mark, Switch
from xlac_sdk.programs.program import Branch, Program, While, walk
from xlac_sdk.source import UnsupportedError

LOOPS, BRANCHES = 12040, 12080  # the first CUDA versions with each
LOOP, BRANCH = "decide_loop", "decide_branch"


def image() -> bytes:
    """The kernels as PTX, which the driver compiles for any GPU and CUDA version."""
    return (files("xlac_cuda") / "templates" / "conditions.ptx").read_bytes()


class Conditions:
    """The kernels, loaded. The context must be current in every method."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._module = gpu.load(image())
        try:
            self.loop = gpu.function(self._module, LOOP, 0, 16)
            self.branch = gpu.function(self._module, BRANCH, 0, 24)
        except BaseException:
            self.close()
            raise

    def decide(self, action: Action) -> bool:
        """Whether a graph can do this without the host."""
        match action:
            case DeviceLoop(condition=condition, body=body):
                return all(map(self.decide, (*condition, *body)))
            case Switch(branches=branches):
                return self._gpu.driver.version >= BRANCHES and all(
                    self.decide(one) for branch in branches for one in branch
                )
        return not isinstance(action, Mark | ExchangeStart | ExchangeDone)

    def close(self) -> None:
        """Unloads the module."""
        self._gpu.unload(self._module)


def loaded(gpu: Gpu, program: Program) -> Conditions | None:
    """The kernels, for a program with loops or branches; None if the driver is too old for them, or
    cannot compile.
    """
    if gpu.driver.version < LOOPS or not any(
        isinstance(step, While | Branch) for step in walk(program.steps)
    ):
        return None
    try:
        return Conditions(gpu)
    except (UnsupportedError, DeviceError):
        return None
