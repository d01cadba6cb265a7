"""The driver's errors as diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlac_sdk.source import Diagnostic, LimitError, UnavailableError, XlacError

if TYPE_CHECKING:
    from xlac_sdk.programs.program import Call, Launch

OUT_OF_MEMORY, NOT_READY = 2, 600
ABSENT = {3, 34, 46, 100, 101}  # not initialized, a stub library, busy, no device, invalid device
OLD = {35, 36, 222, 803, 804}  # the driver is older than the code, or than a library
WRONG_CODE = {200, 209, 218, 300, 301}  # no machine code for this GPU, or none at all
FAULTS = {
    700: "reads or writes memory that is not its own",
    714: "overflows its stack",
    715: "contains an instruction that this GPU does not have",
    716: "accesses memory at an address that its width does not divide",
    717: "uses an instruction on memory of the wrong space",
    718: "jumps to where there is no code",
    719: "fails",
    721: "waits for threads that never come",
}
LOST = {46, 214, 220, 721, 802, 999}  # errors of the GPU itself: memory errors, resets, hangs


class DeviceError(XlacError):
    """An error on a GPU while a program was running. `code` is the driver's number; `step`, if
    known, is what was launched.
    """

    exit_code = 5

    def __init__(
        self, diagnostic: Diagnostic, code: int, step: Launch | Call | None = None
    ) -> None:
        super().__init__(diagnostic)
        self.code, self.step = code, step

    def again(self) -> DeviceError:
        """A copy, to be kept or raised again without the traceback of this one."""
        return DeviceError(self.diagnostics[0], self.code, self.step)

    @property
    def is_fault(self) -> bool:
        """Whether a kernel faulted, which makes its context unusable."""
        return self.code in FAULTS


def failure(call: str, code: int, name: str, text: str) -> XlacError:
    """The error for a failed call of the driver, with the driver's code, name and text."""
    detail = f"{name or code}: {text}" if text else str(name or code)
    if code == OUT_OF_MEMORY and call.startswith("cuMemHost"):
        return LimitError(
            Diagnostic(
                "XL5214",
                f"the host's memory that a GPU copies from is used up ({call})",
                hint="pinned staging memory is four times the largest tensor, 16 MiB at most",
            )
        )
    if code == OUT_OF_MEMORY:
        return LimitError(
            Diagnostic(
                "XL5214",
                f"the GPU's memory is used up ({call})",
                hint="nvidia-smi shows who uses it",
            )
        )
    if code in ABSENT and call in (
        "cuInit",
        "cuDeviceGet",
        "cuDeviceGetCount",
        "cuDevicePrimaryCtxRetain",
    ):
        hint = "nvidia-smi shows the GPUs; CUDA_VISIBLE_DEVICES may hide them"
        return UnavailableError(
            Diagnostic("XL5211", f"there is no GPU that can be used ({detail})", hint=hint)
        )
    if code in OLD:
        return UnavailableError(
            Diagnostic(
                "XL5212",
                f"the GPU's driver is too old ({call}: {detail})",
                hint="a newer driver, or code by an older toolkit",
            )
        )
    if code in WRONG_CODE:
        problem = (
            f"the program was compiled for another GPU, or its code is damaged ({call}: {detail})"
        )
        return UnavailableError(
            Diagnostic(
                "XL5213",
                problem,
                hint="--arch names what to compile for; without it, this machine's GPU",
            )
        )
    if code in FAULTS:
        return DeviceError(
            Diagnostic("XL5215", f"a kernel {FAULTS[code]} ({detail})", hint=LOCATE), code
        )
    if code in LOST:
        hint = "dmesg and nvidia-smi -q tell more; this process cannot use the GPU any more"
        return DeviceError(
            Diagnostic("XL5216", f"the GPU was lost ({call}: {detail})", hint=hint), code
        )
    return DeviceError(Diagnostic("XL5217", f"{call} failed: {detail}"), code)


LOCATE = (
    "XLAC_CUDA_BLOCKING=1 runs kernels one by one and names it, if it is a model's; this process "
    "cannot use the GPU any more"
)
