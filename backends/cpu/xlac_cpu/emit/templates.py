"""The package's templates of LLVM text."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def template(name: str, trim: bool = False) -> Template:
    """A template of this package; `trim` removes lines with only template instructions."""
    # imported here, as most programs need none
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("xlac_cpu"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
        trim_blocks=trim,
        lstrip_blocks=trim,
    )
    return environment.get_template(name)
