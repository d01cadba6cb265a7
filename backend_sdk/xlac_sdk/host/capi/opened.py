"""Opens a shared library of an artefact where neither a compiler nor a backend is installed."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from xlac_sdk.host.capi.library import Library, weights_of
from xlac_sdk.host.package import Artefact
from xlac_sdk.machine.processor_info import processor_info
from xlac_sdk.source import Diagnostic, UnavailableError, UnsupportedError

ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}
# The processor features, as named by Linux, that code with vectors of this many bytes needs on
# x86-like processors.
VECTORS = {64: {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, 32: {"avx2"}}


def opened(artefact: Artefact) -> Library:
    """The artefact's library. Raises UnsupportedError when there is none, or it is for another
    machine.
    """
    if not artefact.package.library.endswith(".so"):
        problem = "the artefact has no shared library, which is what runs without a compiler"
        raise UnsupportedError(Diagnostic("XL5011", problem, hint="build it with --emit so"))
    check(artefact.machines)
    file = artefact.package.weights
    weights = weights_of(artefact.folder / file, artefact.weights) if file else None
    return Library(artefact.folder / artefact.package.library, artefact.program, weights)


def check(machines: tuple[Mapping[str, Any], ...]) -> None:
    """Raises UnsupportedError when this processor can run none of these variants."""
    here = platform.machine().lower()
    here = ALIASES.get(here, here)
    for facts in machines:
        triple = str(facts.get("triple", ""))[:80]
        if not triple:  # chosen by a C compiler
            return
        arch = triple.partition("-")[0]
        linux = platform.system() == "Linux"
        if ALIASES.get(arch, arch) != here or ("linux" in triple) != linux:
            problem = f"the artefact is for {triple}, and this is {here} with {platform.system()}"
            raise UnavailableError(
                Diagnostic("XL5109", problem, hint="build it for this machine: leave --triple out")
            )
    have = features()
    if have and not any(needed(facts) <= have for facts in machines):
        lacking = ", ".join(sorted(needed(machines[0]) - have))
        cpu = str(machines[0].get("cpu"))[:80]
        problem = f"the artefact is for '{cpu}', and this processor lacks {lacking}"
        hint = "build it here, or with --cpu x86-64-v2,x86-64-v3,x86-64-v4 for all"
        raise UnavailableError(Diagnostic("XL5109", problem, hint=hint))


def needed(facts: Mapping[str, Any]) -> set[str]:
    """The features used by code for an x86-like processor."""
    if not str(facts.get("triple", "")).startswith("x86_64"):
        return set()
    extra = {name for name, fact in (("fma", "fma"), ("f16c", "half")) if facts.get(fact)}
    nbytes = facts.get("vector_bytes", 0)
    if facts.get("dots") == "vpdpbusd":
        extra.add("avx512_vnni" if nbytes == 64 else "avx_vnni")
    if facts.get("tables") == "vpermi2b":
        extra.add("avx512vbmi")
    return VECTORS.get(nbytes if isinstance(nbytes, int) else 0, set()) | extra


def features() -> set[str]:
    """The features of this processor, as far as the system reports them."""
    return set(processor_info().get("flags", "").split())
