"""The groups of devices that a collective names, as axes of the mesh."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from xlac.frontends.stablehlo.ranks.manual_scope import ManualScope
from xlac.frontends.stablehlo.site import OperationSite
from xlac.ir.op import Array

OUTSIDE = (
    "it communicates with other devices where no mesh is: the importer takes that inside of manual "
    "computations, such as those of shard_map"
)


def groups_of(site: OperationSite) -> Array:
    """The rows of `replica_groups`. Raises SourceError unless it is a matrix."""
    groups = site.get("replica_groups")
    if not isinstance(groups, np.ndarray) or groups.ndim != 2 or groups.dtype.kind not in "iu":
        site.fail("only groups that are written as a matrix are read", code="XL7208")
    return groups


def channel(site: OperationSite) -> bool:
    """Whether an operation has a channel, so that partitions exchange values and not replicas."""
    given = site.get("channel_handle")
    handle = given.get("handle", 0) if isinstance(given, dict) else given
    return isinstance(handle, int) and handle > 0


def group_axes(site: OperationSite, by_id: bool, ordered: bool = True) -> tuple[str, ...]:
    """The axes of the mesh whose groups an operation names: () where every device is alone.

    `by_id`: the operation may have groups of replicas, of which there is one, each with all of its
    partitions; `use_global_device_ids` says that they are of devices. Raises SourceError.
    """
    scope, groups = site.importer.manual, groups_of(site)
    alone = groups.shape == (1, 1) and not groups.any()
    if scope is None:
        if not alone and groups.size:
            site.fail(OUTSIDE, code="XL7208")
        return ()
    devices = channel(site) and (site.flag("use_global_device_ids") or not by_id)
    if not devices:
        if not alone and groups.size:
            site.fail("its groups are of replicas, and there is one", code="XL7208")
        groups = scope.numbers.reshape(1, -1) if channel(site) else scope.numbers.reshape(-1, 1)
    axes = scope.group_axes(groups, ordered)
    if axes is None:
        not_axes(site, scope)
    return axes


def not_axes(site: OperationSite, scope: ManualScope) -> NoReturn:
    """Raises the error for groups that are not those of axes."""
    mesh = ",".join(f"{name}={size}" for name, size in scope.mesh)
    site.fail(
        f"its groups of devices are not those of manual axes ({', '.join(scope.axes)}) of the mesh "
        f"{mesh}",
        "divide an axis of the mesh in two, so that each group is along axes",
        code="XL7208",
    )
