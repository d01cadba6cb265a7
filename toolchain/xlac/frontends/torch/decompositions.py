"""Selects the ATen operations that PyTorch decomposes before the importer sees them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from xlac.frontends.torch import families
from xlac.frontends.torch.families.math.lists import one_by_one
from xlac.frontends.torch.own_operations import without_indices
from xlac.frontends.torch.table import BUILDERS

assert families


OWN_COMPLEX = ("aten.complex.default", "aten.polar.default")
"""Operations that only complex numbers have; PyTorch's decompositions of them write in place."""


def _built(op: Any) -> bool:
    return str(op) in BUILDERS or str(op) in OWN_COMPLEX


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions, core and others, of all operations that have no builder here."""
    tables: tuple[Any, ...] = (decomposition_table, core_aten_decompositions())
    ways = {op: way for table in tables for op, way in table.items() if not _built(op)}
    pools = (
        torch.ops.aten.max_pool2d_with_indices_backward,
        torch.ops.aten.max_pool3d_with_indices_backward,
    )
    return ways | {pool.default: without_indices for pool in pools} | one_by_one()


def export_decompositions() -> Any:
    """The same for `ExportedProgram.run_decompositions`, which also includes composite
    operations.
    """
    table = torch.export.default_decompositions()
    for op in [op for op in table if _built(op)]:
        del table[op]
    for op, way in decompositions().items():
        if isinstance(op, torch._ops.OpOverload) and op not in table:
            table[op] = way
    return table
