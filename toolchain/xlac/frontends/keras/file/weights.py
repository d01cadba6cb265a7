"""Where the weights of a layer are: in the tree of a .keras file, or under the names that an .h5
file lists for each layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from xlac.frontends.keras.file.hdf5 import Hdf5File
from xlac.frontends.keras.file.malformed import MalformedKerasFile
from xlac.ir.op import Array

LAYERS = ("layers", "_layer_checkpoint_dependencies")  # the second until Keras 2.13
Fits = Callable[[str], bool]
Assets = Callable[[str], str | None]
"""The text of a member of an archive that holds neither configuration nor weights, by its path."""


class WeightStore(Protocol):
    """The weights of a layer and of those inside it."""

    def array(self, index: int, name: str) -> Array | None:
        """The weight with a number and a name; None if the file lacks it."""

    def child(self, attribute: str, fits: Fits) -> WeightStore:
        """The weights of the layer that is an attribute; `fits` says which names in the paths of
        weights may be its.
        """

    def layer(self, name: str, kind: str) -> WeightStore:
        """The weights of one of a model's layers: by its name, or by its kind and number."""

    def asset(self, name: str) -> str | None:
        """A text that the layer keeps beside its weights; None if there is none."""


@dataclass(frozen=True, slots=True)
class TreeWeights:
    """A group of a .keras file; None where the file has no such group. `path` is where assets of
    the same layer are.
    """

    file: Hdf5File
    at: Any | None
    assets: Assets = lambda path: None
    path: str = "assets"

    def array(self, index: int, name: str) -> Array | None:
        """The dataset `vars/INDEX`; layers that save their weights themselves have `vars/NAME`."""
        held = None if self.at is None else self.file.group(self.at, "vars")
        if held is None:
            return None
        array = self.file.array(held, str(index))
        return self.file.array(held, name) if array is None else array

    def child(self, attribute: str, fits: Fits) -> TreeWeights:
        """The group of an attribute, a path; in files of Keras 2 its name may begin with `_`."""
        at = _inside(self.file, self.at, attribute)
        at = _inside(self.file, self.at, f"_{attribute}") if at is None else at
        return replace(self, at=at, path=f"{self.path}/{attribute}")

    def layer(self, name: str, kind: str) -> TreeWeights:
        """The group of a layer, called by its kind."""
        path = f"{self.path}/{LAYERS[0]}/{kind}"
        for folder in LAYERS:
            held = None if self.at is None else self.file.group(self.at, folder)
            if held is not None:
                return replace(self, at=self.file.group(held, kind), path=path)
        return replace(self, at=None, path=path)

    def asset(self, name: str) -> str | None:
        """The member of the archive in the layer's folder of assets."""
        return self.assets(f"{self.path}/{name}")


@dataclass(frozen=True, slots=True)
class FlatWeights:
    """The weights of an .h5 file by their paths, in order; those of a whole model are in `groups`,
    by the names of its layers.
    """

    file: Hdf5File
    arrays: tuple[tuple[tuple[str, ...], Any, str], ...]
    groups: dict[str, FlatWeights] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Hdf5File) -> FlatWeights:
        """The weights of all layers of a file."""
        held = file.group(file.root, "model_weights")
        if held is None:
            raise MalformedKerasFile("its group 'model_weights' is missing")
        groups = {}
        for name in _listed(file, held, "layer_names"):
            at = _inside(file, held, name)
            if at is None:
                raise MalformedKerasFile(f"the weights of layer '{name}' are missing")
            paths = _listed(file, at, "weight_names")
            groups[name] = cls(
                file, tuple((tuple(p.partition(":")[0].split("/")), at, p) for p in paths)
            )
        return cls(file, (), groups)

    def array(self, index: int, name: str) -> Array | None:
        """The first weight whose path ends in the name."""
        for parts, at, path in self.arrays:
            if parts[-1] == name:
                folder, _, last = path.rpartition("/")
                held = _inside(self.file, at, folder)
                return None if held is None else self.file.array(held, last)
        return None

    def child(self, attribute: str, fits: Fits) -> FlatWeights:
        """The weights with a fitting name in their paths; all if there are none."""
        chosen = tuple(a for a in self.arrays if any(map(fits, a[0][:-1])))
        return FlatWeights(self.file, chosen or self.arrays)

    def layer(self, name: str, kind: str) -> FlatWeights:
        """The weights of the layer's group, or those with its name in their paths."""
        if self.groups:
            return self.groups.get(name, FlatWeights(self.file, ()))
        return FlatWeights(self.file, tuple(a for a in self.arrays if name in a[0][:-1]))

    def asset(self, name: str) -> None:
        """Nothing: .h5 files have no assets."""


def _inside(file: Hdf5File, at: Any | None, path: str) -> Any | None:
    """The group at a path inside another."""
    for part in path.split("/") if path else ():
        at = None if at is None else file.group(at, part)
    return at


def _listed(file: Hdf5File, at: Any, name: str) -> list[str]:
    """An attribute of texts, which Keras splits into `name0`, `name1` and so on if it is long."""
    whole = file.texts(at, name)
    if whole is not None:
        return whole
    parts: list[str] = []
    number = 0
    while (part := file.texts(at, f"{name}{number}")) is not None:
        parts += part
        number += 1
    return parts
