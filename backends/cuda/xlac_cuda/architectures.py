"""The supported NVIDIA architectures, and the facts that schedules may use of each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from xlac_cuda.emit.instructions import HOPPER, INSTRUCTIONS
from xlac_cuda.emit.lowering import LACKS, NATIVE
from xlac_cuda.libraries import claims
from xlac_sdk.dtypes import DType
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.support.choices import nearest
from xlac_sdk.target import Request, Target

GROUPS = "wgmma"  # the feature: warpgroup products, which have not yet run on any GPU
WARP, BLOCK_THREADS, ACCESS_BYTES = 32, 1024, 16
SPELLED = re.compile(r"sm_(\d+)([af]?)")


@dataclass(frozen=True, slots=True)
class Architecture:
    """The properties of GPUs of one compute capability: the `shared` memory that a block may use,
    in bytes; the multiprocessors and the second-level cache of the largest such chip; and the
    `threads` and `blocks` that a multiprocessor holds.
    """

    shared: int
    processors: int
    l2: int
    threads: int = 2048
    blocks: int = 32


KIB, MIB = 1 << 10, 1 << 20
KNOWN = {
    80: Architecture(163 * KIB, 108, 40 * MIB),  # A100
    86: Architecture(99 * KIB, 84, 6 * MIB, 1536, 16),  # A40
    87: Architecture(163 * KIB, 16, 4 * MIB, 1536, 16),  # Orin
    89: Architecture(99 * KIB, 142, 96 * MIB, 1536, 24),  # L40S
    90: Architecture(227 * KIB, 132, 50 * MIB),  # H100, H200
    100: Architecture(227 * KIB, 148, 126 * MIB),  # B200
    103: Architecture(227 * KIB, 148, 126 * MIB),  # B300
    120: Architecture(99 * KIB, 188, 128 * MIB, 1536, 24),  # RTX PRO 6000
}
UNCOMBINED = frozenset(
    {(how, dtype) for how in ("add", "mul", "max", "min") for dtype in (DType.I16, DType.U16)}
    | {(how, dtype) for how in ("max", "min") for dtype in (DType.F32, DType.F64)}
)
"""What NCCL has not, integers of 16 bits, and what it has otherwise: its extremes lose a NaN."""

# variants with instructions that later architectures lack
OWN = {90: ("a",), 100: ("a", "f"), 103: ("a", "f"), 120: ("a", "f")}
NAMES = tuple(f"sm_{number}{letter}" for number in KNOWN for letter in ("", *OWN.get(number, ())))


def target(request: Request, gpu: int = 0) -> Target:
    """The target of `--arch`, or of this machine's GPU `gpu`; `sm_90a+cublaslt+cudnn` enables the
    operations of NVIDIA's libraries in `claims.py`, `sm_90a+wgmma` warpgroup products. Raises
    SourceError for an unknown one.
    """
    hint = "--arch sm_90a names a GPU's architecture"
    request.refuse("cuda", "cpu", "triple", "features", hint=hint)
    name, *features = (request.arch or _here(gpu)).split("+")
    facts, capability = (
        described(name, size=request.size),
        int(name.removeprefix("sm_").rstrip("af")),
    )
    if name == "sm_90a" and GROUPS in features:
        features.remove(GROUPS)
        facts = replace(facts, instructions=facts.instructions.union(HOPPER))
    facts = facts.with_given(request, "processors", "l2_bytes")
    claimed = claims.claims(features, capability, at_once=not request.arch and not request.ahead)
    return replace(
        facts,
        products=claimed.products,
        convolutions=claimed.convolutions,
        attentions=claimed.attentions,
    )


def known(name: str) -> Architecture:
    """An architecture, by CUDA's name. Raises SourceError for an unknown one."""
    match = SPELLED.fullmatch(name)
    if match is None or name not in NAMES:
        hint = nearest(name, NAMES, f"one of {', '.join(NAMES)}")
        raise SourceError(
            Diagnostic(
                "XL5202", f"'{name}' is not an architecture that xlac writes code for", hint=hint
            )
        )
    return KNOWN[int(match[1])]


def described(name: str, size: bool = False) -> Target:
    """The target of an architecture."""
    architecture = known(name)
    return Target(
        "cuda",
        languages=frozenset({"cu"}),
        fma=True,
        hardware=MachineFacts(l2_bytes=architecture.l2),
        warp=WARP,
        block_threads=BLOCK_THREADS,
        shared_bytes=architecture.shared,
        primitives=NATIVE,
        lacks=LACKS,
        size=size,
        facts=json.dumps({"arch": name}),
        access_bytes=ACCESS_BYTES,
        processors=architecture.processors,
        instructions=frozenset(INSTRUCTIONS),
        collectives=True,
        uncombined=UNCOMBINED,
    )


def _here(gpu: int) -> str:
    """The architecture of one of this machine's GPUs."""
    from xlac_cuda.device import devices

    name = devices.architecture(gpu)
    if name is None:
        problem = "there is no GPU here to compile for, and --arch names none"
        raise UnsupportedError(
            Diagnostic(
                "XL5203", problem, hint="--arch sm_90a, say: an H100 or H200; sm_80: an A100"
            )
        )
    return name
