"""Shardy's annotations: the mesh of a module, and how arguments and values are divided along it.

They are hints: a sharding that names sub-axes or another mesh than the module's is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xlac.frontends.stablehlo.text.syntax import Raw
from xlac.frontends.stablehlo.values import TypedTensor
from xlac.ir.graph import apply

if TYPE_CHECKING:
    from xlac.frontends.stablehlo.site import Built, OperationSite

# looked for where a word begins, so that a long one is read once; spaces are single ones
AXIS = re.compile(r'(?:"([^"]+)"|(?<![\w.\-])([\w.\-]+)) ?= ?(\d+)(?!\w)')
MESH = re.compile(r"(?<![\w.\-])([\w.\-]+) ?= ?#sdy\.mesh< ?\[([^\]]*)\]")
SHARDING = re.compile(r"@\"?([\w.\-]+)\"? ?, ?\[((?: ?\{[^{}]*\}(?:p\d+)? ?,?)*) ?\]")
DEVICES = re.compile(r"device_ids ?= ?\[([^\]]*)\]")
DIMENSION = re.compile(r"\{([^{}]*)\}")
NAME = re.compile(r'"([^"]+)" ?(:)?')
DIGITS = 7  # of the size of an axis: no mesh has more devices

Axes = dict[str, int]
Sharding = tuple[tuple[str, ...], ...]


def mesh_axes(text: str) -> Axes:
    """The axes of `<["data"=2, "model"=4]>` and their sizes, in order."""
    listed = spaced(text).partition("[")[2].partition("]")[0]
    return {said or word: int(size[: DIGITS + 1]) for said, word, size in AXIS.findall(listed)}


def spaced(text: str) -> str:
    """A text with every run of spaces as one."""
    return " ".join(text.split())


def module_meshes(texts: Mapping[str, str], attributes: Mapping[str, Any]) -> dict[str, Axes]:
    """The meshes of a module by name, by operations `sdy.mesh`, of which `texts` has the axes, or
    as exported programs keep them, in an attribute. Those whose devices are in an order of their
    own are left out, as are those with more devices than there can be.
    """
    given = attributes.get("mhlo.frontend_attributes")
    text = given.get("xla.sdy.meshes") if isinstance(given, Mapping) else None
    listed = MESH.findall(spaced(text)) if isinstance(text, str) else []
    found = {name: mesh_axes(f"[{axes}]") for name, axes in listed}
    for name, axes in texts.items():
        meshes = mesh_axes(axes)
        order = DEVICES.search(spaced(axes))
        numbers = [int(n) for n in re.findall(r"\d{1,7}", order[1])] if order else []
        if numbers == list(range(len(numbers))):
            found[name] = meshes
    return {n: axes for n, axes in found.items() if max(axes.values(), default=1) < 10**DIGITS}


def module_mesh(meshes: Mapping[str, Axes]) -> tuple[str, Axes] | None:
    """The one mesh of several devices that a module has; None where there is none, or more than
    one.
    """
    found = [(name, axes) for name, axes in meshes.items() if prod(axes.values()) > 1]
    return found[0] if len(found) == 1 else None


def sharding_of(attributes: Mapping[str, Any]) -> object:
    """The sharding among the attributes of an argument or an operation."""
    if (own := attributes.get("sdy.sharding", attributes.get("sharding"))) is not None:
        return own
    given = attributes.get("mhlo.frontend_attributes")
    return given.get("xla.sdy.sharding") if isinstance(given, Mapping) else None


def divided(given: object, mesh: tuple[str, Axes] | None, shape: Sequence[Any]) -> Sharding | None:
    """The mesh axes along which each axis of a value of a shape is divided; None where nothing is
    said of it, or nothing that is understood.
    """
    text = given.text if isinstance(given, Raw) else given
    match = SHARDING.search(spaced(text)) if isinstance(text, str) else None
    if mesh is None or match is None or match[1] != mesh[0]:
        return None
    parts = DIMENSION.findall(match[2])
    named = [NAME.findall(part) for part in parts]
    sub_axes = any(colon for names in named for _, colon in names)
    axes = tuple(tuple(name for name, _ in names) for names in named)
    every = [name for names in axes for name in names]
    if sub_axes or len(axes) != len(shape) or len({*every}) != len(every):
        return None
    if any(name not in mesh[1] for name in every):
        return None
    if not every and any("?" in part for part in parts):
        return None  # left to what is said of others
    return axes


def constrained(site: OperationSite) -> Built:
    """The operand itself, divided as the operation says."""
    (value,) = site.operands
    if site.importer.manual or not isinstance(value, TypedTensor) or len(value.parts) != 1:
        return site.operands  # what a rank has is not divided any further
    axes = divided(sharding_of(site.op.attributes), site.importer.mesh, value.node.shape)
    if axes is None:
        return site.operands
    return apply("shard", value.node, axes=tuple(names or None for names in axes))
