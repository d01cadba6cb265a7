"""Which code this machine's processor can run: tests that run code for another one are skipped
where it cannot.
"""

from __future__ import annotations

import pytest

from xlac_cpu.llvm.host import host
from xlac_sdk.host.capi.opened import ALIASES, features, needed
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request


def needs_processor(cpu: str) -> None:
    """Skips where code for a processor, by its name (x86-64-v3), cannot run; the empty name is this
    one's.
    """
    if not cpu:
        return
    arch = host().arch
    if ALIASES.get(arch, arch) != "x86_64":
        pytest.skip("an x86 processor")
    lacking = needed(find("cpu").target(Request(cpu=cpu)).machine) - features()
    if lacking:
        pytest.skip(f"this processor lacks {', '.join(sorted(lacking))}")
