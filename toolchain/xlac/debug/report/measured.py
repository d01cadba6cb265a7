"""What is measured for a report: times of kernels, the machine's ceilings, errors of nodes."""

from __future__ import annotations

import math
from typing import Any

from xlac.debug import ceilings, profile, timing
from xlac.debug.report.fused_groups import places
from xlac.debug.report.spec_text import SpecText
from xlac.debug.verify.verification import Verification
from xlac.driver import Lowered
from xlac_sdk.backend import Backend
from xlac_sdk.machine import measuring

RUNS, MOST = 7, 21
"""Undisturbed runs of each probe of a ceiling, and the most that are taken."""


def times_json(timing: profile.Profile, text: SpecText) -> dict[str, Any]:
    """The section `times`: the median seconds of every step of a call, and of each place of the
    model.
    """
    rows = [
        {
            "kernel": row.name,
            "runs": row.times,
            "seconds": row.seconds,
            "flops": row.times * row.work.flops,
            "bytes": row.times * row.work.bytes,
            "computes": list(dict.fromkeys(o.name for o in row.origins)),
            "places": places(text, row.origins),
        }
        for row in timing.rows
    ]
    lines = [[where, spent] for where, spent in profile.by_line(timing.rows)]
    notes = [f"the log of a call was full; at least {timing.lost} steps are missing"]
    return {
        "seconds": timing.seconds,
        "calls": timing.calls,
        "steps": rows,
        "lines": lines,
        "notes": notes if timing.lost else [],
    }


def ceilings_json(lowered: Lowered, backend: Backend) -> dict[str, Any] | None:
    """The section `ceilings`: the most flops and bytes a second that kernels of our own reach on
    this machine with the same threads; None for a target without vectors.
    """
    if not lowered.target.vector_bytes:
        return None
    with ceilings.probes(backend, lowered.target) as probes:
        runs = [measuring.undisturbed(probe.run, RUNS, MOST) for probe in probes]
    (flops, arithmetic), (nbytes, reading) = (
        (probe.amount, timing.ceiling(times)) for probe, times in zip(probes, runs, strict=True)
    )
    return {
        "flops_per_second": flops / arithmetic[0],
        "bytes_per_second": nbytes / reading[0],
        "spread": [arithmetic[1], reading[1]],
    }


def errors_json(verification: Verification | None) -> dict[str, Any] | None:
    """The section `errors`: what `xlac verify --json` writes, with each value's share of its bound;
    None where nobody verified.
    """
    if verification is None:
        return None
    values = [
        {**value.json(), "share_of_bound": _finite(value.deviation.share)}
        for value in verification.values
    ]
    return {**verification.json(), "values": values}


def _finite(value: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return value if math.isfinite(value) else None
