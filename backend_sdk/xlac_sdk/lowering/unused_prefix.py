"""The names of what lowerings write."""

from __future__ import annotations

from xlac_sdk.kernel_ir.kernel import Kernel, names


def unused_prefix(kernel: Kernel) -> str:
    """A prefix of one or more letters with which no name of the kernel starts, followed by a
    number.
    """
    taken = names(kernel)
    prefix = "m"
    while any(n.startswith(prefix) and n[len(prefix) :].isdigit() for n in taken):
        prefix += "m"
    return prefix


class UnusedNames:
    """Callable: a name that a kernel does not use, another one at each call. The kernel is searched
    at the first.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._prefix, self._count = "", 0

    def __call__(self) -> str:
        self._prefix = self._prefix or unused_prefix(self._kernel)
        self._count += 1
        return f"{self._prefix}{self._count}"
