"""Modules that stay importable under the names that they had: programs outside this tree import
them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


class Moved:
    """Finds and loads `package.old` as `package.new`: one module under both names, so its classes
    are the same.

    A finder and loader as importlib.abc describes them, without the import of that, which takes
    milliseconds.
    """

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        self.names = {f"{package}.{old}": f"{package}.{new}" for old, new in names.items()}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec for a former name; None for any other."""
        return ModuleSpec(name, self) if name in self.names else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """None: as Python makes modules. It is replaced when it is executed."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module itself in place of the empty one that Python made."""
        sys.modules[module.__name__] = import_module(self.names[module.__name__])


def install(package: str, names: Mapping[str, str]) -> None:
    """Makes modules of a package importable under their former names: `names` maps old to new, both
    below the package.
    """
    sys.meta_path.append(Moved(package, names))
