"""A canonical text of what a group computes, and its digest, which names the group: the same in
every process, on every machine, and for every group of equal structure.
"""

from __future__ import annotations

from xlac.fusion.group import Group, open_sizes
from xlac.ir.dims import symbols
from xlac.ops.structure import digest_of, leaf, nodes_text, types


def digest(group: Group) -> str:
    """The digest of a group's structure."""
    return named(structure(group))


def named(structure: str) -> str:
    """The name of groups of a structure."""
    return "g" + digest_of(structure)


def structure(group: Group) -> str:
    """A canonical text of what a group computes: operations, attributes, types and edges; without
    names of the model, and of constants that kernels read only whether all elements are equal.
    Groups with equal text may share kernels.
    """
    number = {node: i for i, node in enumerate((*group.inputs, *group.nodes))}
    lines = [group.kind.value, str(number[group.anchor])]
    lines += [f"{leaf(node)}: {types(node)}" for node in group.inputs]
    lines += nodes_text(group.nodes, number)
    lines.append(" ".join(str(number[node]) for node in group.outputs))
    for size in open_sizes(group):
        lines += [f"{s.name} {s.min} {s.max} {s.opt} {s.multiple_of}" for s in symbols(size)]
    return "\n".join(lines)
