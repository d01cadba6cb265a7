"""Generates a new backend: a package that installs, passes conformance, and whose parts can be
replaced one by one.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import get_args

from xlac_sdk.host.registry import installed
from xlac_sdk.kernel_ir.kernel import Expr, Stmt
from xlac_sdk.kernel_ir.primitives import MANDATORY, Primitive
from xlac_sdk.source import Diagnostic, SourceError

FILES = {
    "pyproject.toml": "pyproject.toml.j2",
    "README.md": "README.md.j2",
    "{package}/__init__.py": "init.py.j2",
    "{package}/backend.py": "backend.py.j2",
    "{package}/device.py": "device.py.j2",
    "{package}/py.typed": "",
    "tests/test_{name}_conformance.py": "test_conformance.py.j2",
}


def create(name: str, parent: Path) -> list[Path]:
    """Writes `parent/xlac-NAME` and returns its files. Raises SourceError for a bad name or an
    existing folder.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    check_name(name)
    folder = parent / f"xlac-{name}"
    if folder.exists():
        raise SourceError(
            Diagnostic("XL5012", f"'{folder}' exists already", hint="choose another name or folder")
        )
    env = Environment(
        loader=PackageLoader("xlac_sdk.skeleton"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    facts = {
        "name": name,
        "package": f"xlac_{name}",
        "title": name.replace("_", " ").title().replace(" ", ""),
        "mandatory": [p.value for p in Primitive if p in MANDATORY],
        "statements": [kind.__name__ for kind in get_args(Stmt)],
        "expressions": [kind.__name__ for kind in get_args(Expr)],
    }
    written = []
    for path, template in FILES.items():
        file = folder / path.format(**facts)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            env.get_template(template).render(facts) if template else "", encoding="utf-8"
        )
        written.append(file)
    return written


def check_name(name: str) -> None:
    """Raises SourceError unless a name is valid for a backend, its package and its entry point."""
    from importlib.util import find_spec

    problem = hint = ""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        problem = f"{name[:60]!r} cannot be a backend's name"
        hint = "use lower-case letters, digits and _, beginning with a letter; at most 40"
    elif keyword.iskeyword(name) or keyword.issoftkeyword(name):
        problem = f"'{name}' is a keyword of Python"
    elif name in installed():
        problem, hint = f"a backend '{name}' is installed already", "`xlac backend list` shows them"
    elif name == "sdk" or find_spec(f"xlac_{name}") is not None:
        problem = f"the package 'xlac_{name}' exists already"
    if problem:
        raise SourceError(Diagnostic("XL5011", problem, hint=hint))
