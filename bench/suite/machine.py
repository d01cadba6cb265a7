"""Which machine a run was on: figures of two processors never share a table."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

FORMS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "avx512_bf16", "asimd")


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, Any]:
    """The processor's name, numbers and vector forms, how many cores this process may use, and
    the system.
    """
    said: dict[str, str] = {}
    for line in cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else ():
        key, _, value = line.partition(":")
        said.setdefault(key.strip(), value.strip())
    flags = set(said.get("flags", said.get("Features", "")).split())
    return {
        "processor": said.get("model name", platform.processor() or platform.machine()),
        "family": said.get("cpu family", said.get("CPU implementer", "")),
        "model": said.get("model", said.get("CPU part", "")),
        "forms": [form for form in FORMS if form in flags],
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
    }


def slug(facts: dict[str, Any]) -> str:
    """A folder's name for a processor: its name, family, model and the cores used."""
    text = "-".join(str(facts[key]) for key in ("processor", "family", "model"))
    return re.sub(r"[^a-z0-9]+", "-", f"{text}-{facts['cores']}c".lower()).strip("-")


def title(facts: dict[str, Any]) -> str:
    """The processor in words."""
    forms = ", ".join(facts["forms"]) or "no vector forms known"
    numbers = f"family {facts['family']} model {facts['model']}"
    return f"{facts['processor']} ({numbers}; {forms}), {facts['cores']} cores"
