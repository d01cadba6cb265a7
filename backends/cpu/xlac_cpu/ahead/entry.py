"""The text of the C API over the functions that run the variants."""

from __future__ import annotations

import json
from collections.abc import Sequence

from xlac_cpu.ahead.levels import PSABI, XSAVE, levels
from xlac_cpu.machine import Machine
from xlac_cpu.module import template
from xlac_sdk.capi import Api
from xlac_sdk.capi.weights import HEADER, MAGIC, MIX, STEP


def entry(api: Api, machines: Sequence[Machine], room: int, mark: str, texts: Sequence[tuple[str, ...]], watched: Sequence[bool]) -> str:
    """The module with the functions of the header, `room` bytes for weights that are inside, and what the variants
    would otherwise call in the C library. `watched`: which of them look whether they are to stop."""
    machine = machines[0]
    needed = {"memcpy"} if any("llvm.memcpy" in text for part in texts for text in part) else set()
    needed |= {"memset"} if api.state_bytes else set()
    vectors = machine.vector_bytes >= 16
    return template("entry.ll.j2", trim=True).render(
        api=api,
        header=json.dumps(machine.settings, sort_keys=True),
        triple=machine.triple,
        bits=machine.pointer_bits,
        variants=len(machines),
        watched=[int(one) for one in watched],
        block=room,
        mark=mark,
        needed=needed,
        wide=16 if vectors else 4,
        chunk="<4 x i32>" if vectors else "i32",
        header_words=[int.from_bytes(MAGIC, "little"), api.weight_bytes, api.weights_hash],
        header_bytes=HEADER,
        hash_step=STEP,
        hash_mix=MIX,
        attributes=machine.attributes,
        levels=levels(machines) if len(machines) > 1 else [],
        psabi=PSABI,
        xsave=XSAVE,
    )
