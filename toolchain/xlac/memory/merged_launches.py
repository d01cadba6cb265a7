"""Launches of which two parameters were given the same memory: the kernel is made anew with one
parameter for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from xlac.ir.dims import Sym
from xlac_sdk.kernel_ir.kernel import Access, Kernel
from xlac_sdk.kernel_ir.rewrite import merge_parameters
from xlac_sdk.programs.program import Argument, Launch
from xlac_sdk.source import Origin


class MergedLaunches:
    """Makes launches; a kernel that is merged in the same way for several of them is merged
    once.
    """

    def __init__(self) -> None:
        self.merged: dict[tuple[Kernel, int, int], Kernel] = {}
        self.backwards: dict[Kernel, Callable[[], Kernel]] = {}  # what `alternated` may turn around

    def launch(
        self,
        kernel: Kernel,
        arguments: tuple[Argument, ...],
        sizes: tuple[Sym, ...],
        origins: tuple[Origin, ...],
    ) -> Launch:
        """A launch; parameters that were given the same memory become one."""
        for i, written in enumerate(kernel.parameters):
            if written.access is Access.READ:
                continue
            for j, other in enumerate(kernel.parameters):
                if i != j and arguments[i] == arguments[j]:
                    key = (kernel, i, j)
                    if key not in self.merged:
                        merged = merge_parameters(kernel, written, other)
                        self.merged[key] = replace(
                            merged, name=f"{kernel.name}_in_place_{len(self.merged)}"
                        )
                        if (backward := self.backwards.get(kernel)) is not None:
                            self.backwards[self.merged[key]] = partial(
                                _merged, backward, i, j, f"{self.merged[key].name}_backward"
                            )
                    return self.launch(
                        self.merged[key], arguments[:j] + arguments[j + 1 :], sizes, origins
                    )
        return Launch(kernel, arguments, sizes, origins)


def _merged(make: Callable[[], Kernel], kept: int, dropped: int, name: str) -> Kernel:
    """A kernel that is made, when it is asked for, with two of its parameters as one."""
    kernel = make()
    return replace(
        merge_parameters(kernel, kernel.parameters[kept], kernel.parameters[dropped]), name=name
    )
