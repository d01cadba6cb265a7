"""Limits on the calls of programs by commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xlac_sdk.programs.program import Program


@contextmanager
def calling(
    program: Program, target: str, threads: int, timeout: float | None, allow_long: bool
) -> Iterator[None]:
    """For calls of a program: rejects or warns about absurdly long ones, and starts the
    time-out.
    """
    from xlac.debug import effort
    from xlac_sdk.host.registry import find
    from xlac_sdk.host.stopping import timeout as limited

    known = "flops" in program.facts  # absent in programs without steps
    flops, nbytes = (
        (program.facts["flops"], program.facts["bytes"])
        if known
        else (program.work.flops, program.work.bytes)
    )
    peak = find(target).peak_flops(threads)
    if not allow_long:
        effort.check(flops, nbytes, target, threads, peak)
    long = effort.warning(flops, nbytes, target, threads, peak)
    if long:
        click.echo(f"warning: {long}", err=True)
    if timeout is None:
        yield
        return
    with limited(timeout):
        yield
