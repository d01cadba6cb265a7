"""The ATen operations, a file for each family. Importing this imports every file here, which enters
them in the table.
"""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__, f"{__name__}."):
    import_module(_file.name)
