"""Builders of ATen operations, a file for each family. Importing this package imports every file in
it and in its folders, which register themselves in the table.
"""

from importlib import import_module
from pkgutil import walk_packages

for _file in walk_packages(__path__, f"{__name__}."):
    import_module(_file.name)
