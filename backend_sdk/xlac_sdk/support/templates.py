"""Loads the Jinja templates in a package's folder `templates`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def template(package: str, name: str, trim: bool = True) -> Template:
    """A template of a package; compiled once, as that takes as long as writing a small file.

    `trim` removes lines with only template instructions.
    """
    # not needed for loading artefacts
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        trim_blocks=trim,
        lstrip_blocks=trim,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return env.get_template(name)
