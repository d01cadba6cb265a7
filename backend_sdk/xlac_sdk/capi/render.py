"""The texts that ship with an artefact, from the templates beside this module."""

from __future__ import annotations

from typing import Any

from xlac_sdk.capi import extents
from xlac_sdk.capi.api import Api


def header(api: Api) -> str:
    """`NAME.h`: C99, and C++."""
    return render("header.h.j2", api)


def cpp_header(api: Api) -> str:
    """`NAME.hpp`: a class for C++17 over the header."""
    names = {s.symbol.name: f"sizes.{s.name}" for s in api.sizes}
    counts = {a.name: f"static_cast<std::size_t>({extents.text(a.slot.elements, names)})" for a in api.arrays}
    return render("wrapper.hpp.j2", api, counts=counts)


def rust_module(api: Api) -> str:
    """`NAME.rs`: the header's declarations for Rust."""
    return render("module.rs.j2", api)


def npy_program(api: Api) -> str:
    """`NAME_main.c`: a program over the header that reads and writes .npy files."""
    return render("main.c.j2", api)


def cmake_package(api: Api, library: str = "") -> str:
    """`NAMEConfig.cmake`: the target NAME::NAME, made of the C file or of a library beside it."""
    kind = "SHARED" if library.endswith((".so", ".dylib", ".dll")) else "STATIC"
    return render("config.cmake.j2", api, library=library, kind=kind)


def render(template: str, api: Api, **facts: Any) -> str:
    """A template of this package, filled in."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not for those who only load artefacts

    env = Environment(
        loader=PackageLoader("xlac_sdk.capi"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    return env.get_template(template).render(api=api, **facts)
