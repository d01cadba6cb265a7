"""The texts that ship with an artefact, from the templates beside this module."""

from __future__ import annotations

from typing import Any

from xlac_sdk.capi.api import Api


def header(api: Api) -> str:
    """`NAME.h`: C99, and C++."""
    return render("header.h.j2", api)


def render(template: str, api: Api, **facts: Any) -> str:
    """A template of this package, filled in."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not for those who only load artefacts

    env = Environment(
        loader=PackageLoader("xlac_sdk.capi"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    return env.get_template(template).render(api=api, **facts)
