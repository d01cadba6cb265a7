"""How values are divided among ranks, in the words of Shardy, as attributes that every tool of MLIR
reads: `xla.sdy.meshes` of a module, `xla.sdy.sharding` of arguments and of custom calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlac.ir.graph import Node
from xlac.model import Model, SaidSharding
from xlac.ops.tensor.leaf import param
from xlac.spec.text.write import quoted

NAME = "mesh"  # of the one mesh of a module


@dataclass(frozen=True, slots=True)
class WrittenMesh:
    """The mesh of a model, all of whose sizes are known, and what it says of parameters."""

    sizes: Mapping[str, int]
    params: Mapping[str, SaidSharding]

    @property
    def attribute(self) -> str:
        """The attribute of the module."""
        axes = ", ".join(f"{quoted(name)}={size}" for name, size in self.sizes.items())
        return _attributes("meshes", f"{{{NAME} = #sdy.mesh<[{axes}]>}}")

    def of_parameter(self, node: Node) -> str:
        """The attribute of an argument; nothing where nothing is said of it."""
        said = self.params.get(param(node).name)
        if said is None:
            return ""
        return _attributes("sharding", f"#sdy.sharding<@{NAME}, [{_dimensions(said.axes)}]>")

    def of_result(self, axes: Sequence[Sequence[str]]) -> str:
        """The attribute of an operation with one result that is divided along these axes."""
        sharding = f"<@{NAME}, [{_dimensions(axes)}]>"
        return _attributes("sharding", f"#sdy.sharding_per_value<[{sharding}]>")


def mesh_of(model: Model) -> WrittenMesh | None:
    """The mesh of a model; None where it has none, or one with a size that is left open."""
    if model.ranks is None or not model.ranks.mesh:
        return None
    sizes = {name: size for name, size in model.ranks.mesh.items() if size is not None}
    if len(sizes) < len(model.ranks.mesh):
        return None
    return WrittenMesh(sizes, model.ranks.params)


def _dimensions(axes: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{{{', '.join(map(quoted, names))}}}" for names in axes)


def _attributes(name: str, text: str) -> str:
    return f"mhlo.frontend_attributes = {{xla.sdy.{name} = {quoted(text)}}}"
