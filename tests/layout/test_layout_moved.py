"""Modules that moved are importable where programs outside this tree expect them, and are the same
modules.
"""

import subprocess
import sys
from collections.abc import Iterable

import pytest

NAMES = (
    ("xlac_sdk.kernel", "xlac_sdk.kernel_ir.kernel"),
    ("xlac_sdk.program", "xlac_sdk.programs.program"),
    ("xlac_sdk.runner", "xlac_sdk.host.runner"),
    ("xlac_sdk.registry", "xlac_sdk.host.registry"),
    ("xlac_sdk.ctext", "xlac_sdk.emit.ctext"),
    ("xlac_sdk.legalize", "xlac_sdk.lowering.legalize"),
)


def same(pairs: Iterable[tuple[str, str]]) -> str:
    """A program that imports by both names."""
    lines = []
    for old, new in pairs:
        package, name = old.rsplit(".", 1)
        lines.append(f"import {old}, {new}; from {package} import {name} as former")
        lines.append(f"assert {old} is {new} is former")
    return "\n".join(lines)


def test_the_former_name_gives_the_same_module() -> None:
    subprocess.run([sys.executable, "-c", same(NAMES)], check=True)


def test_the_former_name_of_the_onnx_backend() -> None:
    pytest.importorskip("onnx")
    pair = ("xlac.onnx_backend", "xlac.integrations.onnx_backend")
    subprocess.run([sys.executable, "-c", same([pair])], check=True)


def test_every_former_name_leads_somewhere() -> None:
    code = (
        "import sys, importlib; import xlac_sdk;"
        "finder = next(f for f in sys.meta_path if type(f).__name__ == 'Moved');"
        "assert len(finder.names) > 20;"
        "[importlib.import_module(name) for name in finder.names]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


FORMER = {
    "interpret": "Interpreter KernelFault compile_kernel extent run_kernel",
    "verify": "applies verify verify_program",
    "text": "expr show show_program",
    "indexing": (
        "Number add apply cast div divmod_of index lift mod mul ramp select size_var splat sub"
    ),
    "dims": "Dim Shape Sym Symbol evaluate static",
    "backend": "Array Backend Device Executable",
}


def test_modules_that_were_split_have_all_their_names() -> None:
    code = "; ".join(
        f"from xlac_sdk.{module} import {', '.join(names.split())}"
        for module, names in FORMER.items()
    )
    subprocess.run([sys.executable, "-c", code], check=True)
