"""Modules that stay importable under their former names, which programs outside this
tree import.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


class Moved:
    """A finder and loader of `package.old` as `package.new`: one module under both names, so that
    its classes are the same.

    It implements importlib.abc's interfaces without importing that, which takes milliseconds.
    """

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        self.names = {f"{package}.{old}": f"{package}.{new}" for old, new in names.items()}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec for a former name; None for any other."""
        return ModuleSpec(name, self) if name in self.names else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """None: Python then makes a default module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Replaces the empty module that Python made by the real one."""
        sys.modules[module.__name__] = import_module(self.names[module.__name__])


def install(package: str, names: Mapping[str, str]) -> None:
    """Makes modules of a package importable under their former names: `names` maps old to new, both
    below the package.
    """
    sys.meta_path.append(Moved(package, names))
