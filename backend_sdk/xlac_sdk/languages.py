"""Languages in which people write kernels by hand, by the suffixes of their files: what
`Target.languages` names.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelLanguage:
    """A language by its full name. `launched` says whether every thread of some blocks calls a
    kernel's function, as on a GPU, instead of one thread the function that computes everything.
    """

    name: str
    launched: bool = False


LANGUAGES = {
    "c": KernelLanguage("C99"),
    "ll": KernelLanguage("LLVM IR"),
    "cu": KernelLanguage("CUDA C++", launched=True),
    "cl": KernelLanguage("OpenCL C", launched=True),
}
