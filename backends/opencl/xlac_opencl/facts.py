"""The facts of OpenCL's devices."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from xlac_opencl.device import device_of
from xlac_opencl.dialect import OPENCL
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.target import Request, Target

NATIVE, LACKS = OPENCL.primitives()
SUBGROUP = 16  # work-items, of which a kernel may have subgroups where a device has
ASKED = {f"cl_intel_{it}" for it in "subgroups_char subgroups_short required_subgroup_size".split()}
KINDS = ("cpu", "gpu", "generic-cpu", "generic-gpu")
GENERIC = SimpleNamespace(  # what current devices have at least, for code that is for any of them
    name="any", double_fp_config=1, max_work_group_size=256, local_mem_size=32 << 10,
    max_compute_units=16, preferred_vector_width_float=8, extensions="",
)  # fmt: skip


def target(request: Request, number: int) -> Target:
    """The target of a device, or with `--arch` of the kind of device that it names."""
    if request.cpu or request.triple or request.features or request.arch not in ("", *KINDS):
        problem = f"the opencl backend takes only --arch, with one of {', '.join(KINDS)}"
        raise SourceError(Diagnostic("XL5201", problem))
    kind = request.arch.removeprefix("generic-")
    device: Any = GENERIC if kind != request.arch else device_of(number)
    subgroups = set(device.extensions.split()) >= ASKED
    kind = kind or ("cpu" if device.type & 2 else "gpu")  # CL_DEVICE_TYPE_CPU
    lacking = {DType.BF16} | (set() if device.double_fp_config else {DType.F64})
    described = Target(
        "opencl",
        device=kind,
        warp=0 if kind == "cpu" else SUBGROUP if subgroups else 32,
        fma=True,
        primitives=NATIVE,
        lacks=LACKS,
        most_lanes=max(OPENCL.native),
        dtypes=frozenset(DType) - lacking,
        size=request.size,
        functions=True,
        languages=frozenset({OPENCL.language}),
        storage_alignment=16,  # of the widest access, and of NumPy's large arrays, to adopt them
        facts=json.dumps(
            {"arch": request.arch or kind, "cpu": device.name.strip(), "subgroups": subgroups}
        ),
    )
    units, most = device.max_compute_units, device.max_work_group_size
    if kind == "cpu":  # vectors, and groups of one work-item
        width = 4 * device.preferred_vector_width_float
        return replace(described, threads=units, vector_bytes=width)
    many = replace(described, block_threads=min(256, most), processors=units)
    return replace(many, shared_bytes=device.local_mem_size, access_bytes=16)


def subgroup(target: Target) -> int:
    """The work-items of the subgroups in which a target exchanges values; 0 through memory."""
    known = json.loads(target.facts)["subgroups"]
    return SUBGROUP if known and 0 < target.warp <= SUBGROUP else 0
