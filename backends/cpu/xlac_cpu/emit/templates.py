"""The package's templates of LLVM text."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def template(name: str, trim: bool = False) -> Template:
    """A template of this package; `trim` takes away the lines that hold its instructions only."""
    environment = Environment(
        loader=PackageLoader("xlac_cpu"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
        trim_blocks=trim,
        lstrip_blocks=trim,
    )
    return environment.get_template(name)
