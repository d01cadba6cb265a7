"""Manual computations: what every rank of a mesh computes of its parts of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.frontends.stablehlo.ranks.manual_scope import ManualScope
from xlac.frontends.stablehlo.scope import RegionScope
from xlac.frontends.stablehlo.shardy import DIMENSION, NAME, SHARDING, spaced
from xlac.frontends.stablehlo.site import OperationSite
from xlac.frontends.stablehlo.text.syntax import Raw, TensorType
from xlac.frontends.stablehlo.values import TypedTensor, Value, nodes_of
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.collective.manual import Division, ManualComputation, part_type


def computed(site: OperationSite) -> list[Value]:
    """The results of a manual computation, from those of its ranks."""
    scope, takes, gives = _read(site)
    importer = site.importer
    takes = _sizes_captured(site, takes)
    before, importer.manual = importer.manual, scope
    graph, captured = site.capturing(0, _open_types(site, scope, takes))
    importer.manual = before
    operands = [*site.tensors(), *captured]
    inputs: list[Node] = []
    divisions: list[Division] = []
    for n, value in enumerate(operands):
        for node in nodes_of([value]):
            inputs.append(node)  # what is captured is whole on every rank
            divisions.append(takes[n] if n < len(takes) else ((),) * node.type.rank)
    types = site.results()
    counts = [2 if type.element.complex else 1 for type in types]
    if sum(counts) != len(graph.outputs):
        site.fail(f"its region gives {len(graph.outputs)} tensors, not {sum(counts)}")
    if not types:
        return []
    results = tuple(d for d, count in zip(gives, counts, strict=True) for _ in range(count))
    op = ManualComputation(graph, scope.mesh, scope.own, tuple(divisions), results)
    left = list(build.results(Node.of(op, *inputs)))
    return [
        TypedTensor(type.element, tuple(left.pop(0) for _ in range(count)))
        for type, count in zip(types, counts, strict=True)
    ]


def _sizes_captured(site: OperationSite, takes: list[Division]) -> list[Division]:
    """Makes the region capture integers that every rank has, so that sizes that are computed from
    them are known; returns how the other operands are divided.
    """
    regions = site.op.regions
    if len(regions) != 1 or len(regions[0].arguments) != len(takes):
        return takes
    inner, kept = RegionScope(site.importer, site.scope), []
    for n, (x, (name, _)) in enumerate(zip(site.tensors(), regions[0].arguments, strict=True)):
        if not x.shape and x.element.plain and x.element.dtype.is_integer:
            inner.define(name, x, site.op.at)
        else:
            kept.append(n)
    arguments = [regions[0].arguments[n] for n in kept]
    site.scope, site.operands = inner, [site.operands[n] for n in kept]
    site.op = replace(site.op, regions=[replace(regions[0], arguments=arguments)])
    return [takes[n] for n in kept]


def _open_types(
    site: OperationSite, scope: ManualScope, takes: list[Division]
) -> list[Type] | None:
    """The types of the parts of operands, where the text does not state all sizes of the region's
    arguments; None where it does.
    """
    stated = [type for _, type in site.op.regions[0].arguments] if site.op.regions else []
    if not any(isinstance(type, TensorType) and None in type.shape for type in stated):
        return None
    values = zip(site.tensors(), takes, strict=True)
    return [part_type(node.type, d, scope.mesh) for value, d in values for node in value.parts]


def _read(site: OperationSite) -> tuple[ManualScope, list[Division], list[Division]]:
    """The mesh and the axes of a computation, and how its operands and results are divided."""
    importer = site.importer
    texts = {name: _text(site.get(name)) for name in ("in_shardings", "out_shardings")}
    listed = {name: SHARDING.findall(text) for name, text in texts.items()}
    for name, count in (
        ("in_shardings", len(site.operands)),
        ("out_shardings", len(site.op.types)),
    ):
        if len(listed[name]) != count:
            site.fail(
                f"attribute '{name}' has {len(listed[name])} shardings that are understood, for "
                f"{count} values",
                "each is <@mesh, […]>, of a mesh of the module",
            )
    meshes = list(dict.fromkeys(mesh for each in listed.values() for mesh, _ in each))
    if len(meshes) != 1:
        site.fail(f"its shardings are of {len(meshes)} meshes, not of one")
    axes = importer.meshes.get(meshes[0])
    if axes is None:
        site.fail(
            f"mesh '{meshes[0][:80]}' is not in the module, or its devices are not in their order",
            code="XL7208",
        )
    own = tuple(name for name, _ in NAME.findall(_text(site.get("manual_axes"))))
    outer = importer.manual
    scope = ManualScope(tuple(axes.items()), own, outer.axes if outer else ())
    strange = [name for name in own if name not in axes or name in scope.outer]
    if strange or (outer and outer.mesh != scope.mesh):
        site.fail(
            f"'{strange[0]}' is no axis of its mesh that is left to be manual"
            if strange
            else "it is inside of one on another mesh"
        )
    takes, gives = ([_division(site, text, own) for _, text in each] for each in listed.values())
    return scope, takes, gives


def _text(given: object) -> str:
    """The text of an attribute."""
    text = given.text if isinstance(given, Raw) else given
    return spaced(text) if isinstance(text, str) else ""


def _division(site: OperationSite, text: str, own: Sequence[str]) -> Division:
    """The manual axes that divide each axis of a value; other axes of the mesh are left to what
    divides the program around.
    """
    parts = [NAME.findall(part) for part in DIMENSION.findall(text)]
    if any(colon for names in parts for _, colon in names):
        site.fail("a value is divided along a part of an axis", code="XL7208")
    return tuple(tuple(name for name, _ in names if name in own) for names in parts)
