"""What must hold of the facts of a target, said in words of the field that is wrong."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from xlac_sdk.arithmetic import WeakArithmetic
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.machine_facts import MachineFacts

DEVICES = ("cpu", "gpu")
ELEMENTS: dict[str, type] = {
    "dtypes": DType, "primitives": Primitive, "guards": Primitive, "lacks": tuple,
    "weak": WeakArithmetic, "instructions": str, "claims": str, "languages": str,
}  # fmt: skip
ALIGNMENTS = {"alignment": 64, "storage_alignment": 8, "copy_alignment": 1}
"""Fields that are powers of two, with the least of each."""


def check_target(target: Any) -> None:
    """Checks a `Target`. Raises TypeError for a field of another type than its default's, and
    ValueError for a value that it cannot have.
    """
    for field in fields(target):
        given = getattr(target, field.name)
        wanted = str if field.default is MISSING else type(field.default)
        if field.name == "unmeasured":
            wanted = MachineFacts if given is not None else type(None)
        if type(given) is not wanted:
            problem = f"{field.name} is of type {wanted.__name__}, not {type(given).__name__}"
            raise TypeError(f"target '{target.name}': {problem} ({given!r})")
        if isinstance(given, int) and given < 0:
            raise ValueError(f"target '{target.name}': {field.name} is at least 0, not {given}")
    for name, element in ELEMENTS.items():
        for one in getattr(target, name):
            if not isinstance(one, element):
                problem = f"{name} has elements of type {element.__name__}, not {one!r}"
                raise TypeError(f"target '{target.name}': {problem}")
    if target.device not in DEVICES or (target.device == "gpu") != bool(target.warp):
        raise ValueError(
            f"target '{target.name}': device is {' or '.join(DEVICES)}, a gpu's warp is not 0, "
            f"and a cpu's is; here device is {target.device!r} and warp {target.warp}"
        )
    for name, least in ALIGNMENTS.items():
        given = getattr(target, name)
        if given < least or given.bit_count() != 1:
            problem = f"{name} is a power of two of at least {least}, not {given}"
            raise ValueError(f"target '{target.name}': {problem}")
    long = {DType.I64, DType.U64} & target.dtypes
    if len(long) == 1 or (not long and DType.F64 in target.dtypes):
        raise ValueError(
            f"target '{target.name}': i64 and u64 are among its dtypes or both lacking, and f64 "
            "is lacking where they are"
        )
