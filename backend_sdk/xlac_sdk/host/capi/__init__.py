"""The C API of a compiled program: the same interface for C source and for native objects.

    api = api_of(program, WeightsOrigin.EMBED)
    text = header(api)

`Api` describes the functions, their parameters and checks; the templates in this folder generate
the header for callers. A backend that makes native code defines the same functions (`NAME_size`,
`NAME_init`, `NAME_run`, `NAME_reset`, `NAME_status_text`), so callers need not know which one they
have.
"""

from __future__ import annotations

from xlac_sdk.host.capi.api import Api, api_of
from xlac_sdk.host.capi.arguments import ArrayArgument, SizeArgument
from xlac_sdk.host.capi.names import identifier
from xlac_sdk.host.capi.render import (
    cmake_package,
    cpp_header,
    header,
    npy_program,
    rust_module,
    wrappers,
)
from xlac_sdk.host.capi.status import Status
from xlac_sdk.programs.constants import WeightsOrigin, weights_file

Weights = WeightsOrigin  # the former name, used by backends outside this tree

__all__ = [
    "Api", "ArrayArgument", "SizeArgument", "Status", "Weights", "WeightsOrigin", "api_of",
    "cmake_package", "cpp_header", "header", "identifier", "npy_program", "rust_module",
    "weights_file", "wrappers",
]  # fmt: skip
