"""Communication between devices, where every group has one: nothing is exchanged."""

from __future__ import annotations

import numpy as np

from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.ops import build

BETWEEN = "it communicates with other devices, and a program of xlac runs on one"


def alone(site: OperationSite, attribute: str) -> np.ndarray:
    """The groups of devices that an operation names. Raises SourceError unless there is one device
    in each.
    """
    groups = site.get(attribute)
    if not isinstance(groups, np.ndarray) or groups.ndim != 2:
        site.fail(BETWEEN, "only groups that are written as a matrix are read", code="XL7208")
    if groups.shape[1] != 1 or groups.shape[0] > 1:
        site.fail(BETWEEN, code="XL7208")
    return groups


@operation("all_reduce", "all_gather", "all_to_all", "reduce_scatter")
def collective(site: OperationSite) -> Built:
    """The operands, in groups of one device: a reduction of one value is the value."""
    alone(site, "replica_groups")
    return site.operands


@operation("cross-replica-sum", "collective_broadcast")
def broadcast(site: OperationSite) -> Built:
    """The operand, in a group of one device."""
    alone(site, "replica_groups")
    return site.operands


@operation("collective_permute")
def permute(site: OperationSite) -> Built:
    """The operand where the device sends to itself, zeros where nobody sends."""
    pairs = site.get("source_target_pairs")
    if not isinstance(pairs, np.ndarray) or pairs.size not in (0, 2) or pairs.any():
        site.fail(BETWEEN, code="XL7208")
    if pairs.size:
        return site.operands
    return [x.each([build.like(0, part) for part in x.parts]) for x in site.tensors()]
