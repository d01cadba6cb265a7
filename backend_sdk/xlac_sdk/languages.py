"""The languages of hand-written kernels, by file suffix, as listed in `Target.languages`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelLanguage:
    """A language and its full name. `launched` says whether a kernel's function is called by every
    thread of a grid, as on a GPU, instead of once by a single thread.
    """

    name: str
    launched: bool = False


LANGUAGES = {
    "c": KernelLanguage("C99"),
    "ll": KernelLanguage("LLVM IR"),
    "cu": KernelLanguage("CUDA C++", launched=True),
    "cl": KernelLanguage("OpenCL C", launched=True),
}
