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
