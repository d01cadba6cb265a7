"""Launches where two parameters share memory: the kernel is made again with one parameter for
both.
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
    """Makes launches. A kernel that several launches merge in the same way is merged once."""

    def __init__(self) -> None:
        self.merged: dict[tuple[Kernel, int, int], Kernel] = {}
        # for `alternated`: the reversed variants of kernels
        self.backwards: dict[Kernel, Callable[[], Kernel]] = {}

    def launch(
        self,
        kernel: Kernel,
        arguments: tuple[Argument, ...],
        sizes: tuple[Sym, ...],
        origins: tuple[Origin, ...],
    ) -> Launch:
        """A launch; parameters that share memory become one."""
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
    """Delays the merging of two parameters of a kernel until it is asked for."""
    kernel = make()
    return replace(
        merge_parameters(kernel, kernel.parameters[kept], kernel.parameters[dropped]), name=name
    )
