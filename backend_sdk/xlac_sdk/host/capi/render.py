"""Renders the texts that ship with an artefact from the templates in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac_sdk.host.capi import extents
from xlac_sdk.host.capi.api import Api, text_of
from xlac_sdk.host.capi.arguments import ArrayArgument
from xlac_sdk.programs.constants import HEADER, MIX, STEP
from xlac_sdk.programs.sizes import alone
from xlac_sdk.support.templates import template


def header(api: Api) -> str:
    """`NAME.h`: C99, and C++."""
    return render("device.h.j2" if api.driver else "header.h.j2", api)


def wrappers(api: Api, forms: Sequence[str]) -> dict[str, str]:
    """Those of the forms `hpp`, `rs` and `cmake` that are wanted, over the C file: their texts, by
    file name.
    """
    known = (
        ("hpp", f"{api.prefix}.hpp", cpp_header),
        ("rs", f"{api.prefix}.rs", rust_module),
        ("cmake", f"{api.prefix}Config.cmake", cmake_package),
    )
    return {name: written(api) for form, name, written in known if form in forms}


def cpp_header(api: Api) -> str:
    """`NAME.hpp`: a class for C++17 over the header."""
    names = {s.symbol.name: f"sizes.{s.name}" for s in api.sizes}
    counts = {
        a.name: f"static_cast<std::size_t>({extents.text(a.slot.elements, names)})"
        for a in api.every_array
    }
    types = {t.slot.dtype.value: t.type for t in api.entries.tensors} if api.entries else {}
    return render(
        "wrapper.hpp.j2", api, counts=counts, functions=api.calls, types=sorted(types.items())
    )


def rust_module(api: Api) -> str:
    """`NAME.rs`: the header's declarations for Rust."""
    return render("module.rs.j2", api)


def npy_program(api: Api) -> str:
    """`NAME_main.c`: a program over the header that reads and writes .npy files."""
    names = {s.symbol.name: f"sizes->{s.name}" for s in api.sizes}
    called = {s.symbol.name: s.name for s in api.sizes}
    solved, checked = {}, []
    for number, array in enumerate(api.inputs):
        for axis, dim in enumerate(array.slot.shape):
            solution = alone(dim)
            if solution is not None and solution[0].name not in solved:
                place = f"inputs[{number}].extents[{axis}]"
                solved[solution[0].name] = called[solution[0].name], place, solution[1], solution[2]
            if not isinstance(dim, int):
                checked.append((number, axis, extents.text(dim, names)))
    dynamic_axes = [
        (number, axis, extents.text(dim, names))
        for number, array in enumerate(api.outputs)
        for axis, dim in enumerate(array.slot.shape)
        if not isinstance(dim, int)
    ]
    return render(
        "main.c.j2",
        api,
        solved=list(solved.values()),
        checked=checked,
        made=dynamic_axes,
        extents=_extents,
        rank=max((len(a.slot.shape) for a in api.arrays), default=0) or 1,
    )


def _extents(array: ArrayArgument) -> str:
    """The extents of an array as C expressions: -1 for one chosen by each call."""
    return ", ".join(str(dim) if isinstance(dim, int) else "-1" for dim in array.slot.shape) or "0"


def cmake_package(api: Api, library: str = "") -> str:
    """`NAMEConfig.cmake`: the target NAME::NAME, built from the C file or from a library beside
    it.
    """
    kind = "SHARED" if library.endswith((".so", ".dylib", ".dll")) else "STATIC"
    return render("config.cmake.j2", api, library=library, kind=kind)


def weights_check(api: Api) -> str:
    """The functions `check_header` and `NAME_check_weights` of a C file, for weights of callers."""
    constants = {"header_bytes": HEADER, "hash_step": STEP, "hash_mix": MIX}
    return render("weights_check.c.j2", api, **constants).rstrip("\n")


def status_text(api: Api) -> str:
    """The function `NAME_status_text` of a C file."""
    return render("status_text.c.j2", api, texts=api.texts).rstrip("\n")


def tensor_table(api: Api) -> str:
    """The facts of the state's tensors in a C file, and the function `NAME_tensor`."""
    return render("tensors.c.j2", api, text_of=text_of).rstrip("\n")


def render(name: str, api: Api, **facts: Any) -> str:
    """A template of this package, rendered."""
    return template("xlac_sdk.host.capi", name).render(api=api, **facts)
