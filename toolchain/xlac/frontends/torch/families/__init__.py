"""The ATen operations, a file for each family. Importing this imports every file here, in its folders
too, which enters them in the table.
"""

from importlib import import_module
from pkgutil import walk_packages

for _file in walk_packages(__path__, f"{__name__}."):
    import_module(_file.name)
