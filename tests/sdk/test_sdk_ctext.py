"""C text: clean under the strictest warnings as C and as C++, no undefined behaviour, safe names,
exact numbers.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sampling import Some

from xlac_c import BACKEND, CBackend
from xlac_sdk.conformance import Case, cases, check
from xlac_sdk.conformance.primitives import cases as primitive_cases
from xlac_sdk.conformance.steps import chain, constants, hostile
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.csimplify import unwrapped
from xlac_sdk.emit.ctext import C99, kernel_text, literal
from xlac_sdk.host.capi import identifier
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request

TARGET = BACKEND.target(Request())
WARNINGS = ["-pedantic", "-Wall", "-Wextra", "-Werror"]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_compiler
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.sampled(4)
def test_every_case_compiles_without_a_warning(language: str, tmp_path: Path, some: Some) -> None:
    """Conformance programs as C, fewer as C++, whose headers take ten times as long to read; with
    --all each.
    """
    included = []
    chosen = some(list(cases(TARGET)), 4 if language == "c" else 18)
    for number, case in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in BACKEND.emit(replace(case.program, name=f"m{number}"), TARGET).items():
            (folder / name).write_text(text)
        included.append(str(folder / f"m{number}.c"))
    compiler = ["gcc", "-std=c99"] if language == "c" else ["g++", "-std=c++17", "-x", "c++"]
    done = subprocess.run(
        [*compiler, *WARNINGS, "-fsyntax-only", *included],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:3000]


UNDEFINED = """
import sys
from pathlib import Path
from xlac_c import BACKEND
from xlac_sdk.conformance import cases, check
from xlac_sdk.host.capi import c_compiler
from xlac_sdk.target import Request
c_compiler.FLAGS = (*c_compiler.FLAGS, "-O0", "-fsanitize=undefined",
                 "-fsanitize-undefined-trap-on-error")
wanted = sys.argv[1:]
target = BACKEND.target(Request())
for case in cases(target):
    if case.group in wanted or case.name in wanted:
        print(case.name, flush=True)
        failed = [o for o in check(case, BACKEND, target) if o.status != "passed"]
        assert not failed, failed
"""


@needs_compiler
def test_no_behaviour_is_undefined() -> None:
    """The corners of every integer operation and cast, compiled so that undefined behaviour kills
    the process.
    """
    groups = [
        *"add sub mul div rem shl shr neg abs pow popcnt clz".split(),
        "cast scalar of f64",
        "cast scalar of i64",
    ]
    done = subprocess.run(
        [sys.executable, "-c", UNDEFINED, *groups, "integers that wrap"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]


class Planted(CBackend):
    """The c backend with its operands of subtraction swapped."""

    dialect = replace(C99, floats={**C99.floats, Primitive.SUB: "({1} - {0})"})


@needs_compiler
def test_a_planted_spelling_is_caught_by_the_primitive_it_is_planted_in() -> None:
    chosen = [c for c in primitive_cases(TARGET) if c.group in ("add", "sub", "neg")]
    outcomes = [o for case in chosen for o in check(case, Planted(), TARGET)]
    failed = {o.case for o in outcomes if o.status == "failed"}
    assert failed == {"sub scalar: f32", "sub scalar: f64"}


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, DType.F32, "0.1f"),
        (0.1, DType.F64, "0.1"),
        (1.0, DType.F32, "1.0f"),
        (-0.0, DType.F32, "(-0.0f)"),
        (float("nan"), DType.F32, "NAN"),
        (float("-inf"), DType.F64, "(-(double)INFINITY)"),
        (-(2**31), DType.I32, "(-2147483647 - 1)"),
        (-(2**63), DType.I64, "(-INT64_C(9223372036854775807) - 1)"),
        (2**64 - 1, DType.U64, "UINT64_C(18446744073709551615)"),
        (-5, DType.I8, "(int8_t)(-5)"),
        (1.0, DType.BF16, "16256"),
        (True, DType.BOOL, "1"),
    ],
)
def test_numbers_are_exact(value: float, dtype: DType, text: str) -> None:
    assert literal(value, dtype) == text


def test_every_float_survives_its_text() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32)
    for value in bits.view(np.float32)[np.isfinite(bits.view(np.float32))].tolist():
        text = literal(value, DType.F32).strip("()").rstrip("f")
        assert np.float32(float(text)).tobytes() == np.float32(value).tobytes()


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("(a + b)", "a + b"),
        ("(a) + (b)", "(a) + (b)"),
        ("(f(a, b))", "f(a, b)"),
        ("((void)a, (void)b, 0)", "((void)a, (void)b, 0)"),
        ("((a, b))", "(a, b)"),
    ],
)
def test_parentheses_stay_around_commas(text: str, bare: str) -> None:
    assert unwrapped(text) == bare


def test_names_stay_apart() -> None:
    names = ["for", "for_", "vfor_", "exp", "exp_", "x", "x_", "_x", "e1_", "expf"]
    assert len({C99.identifier(n) for n in names}) == len(names)
    assert all(not C99.identifier(n).startswith("_") for n in names)


@pytest.mark.parametrize("name", ["add_0", "exp", "for", "e1_"])
def test_a_kernels_function_has_the_name_that_launches_look_up(name: str) -> None:
    prefixed = replace(C99, kernel="k_{}")
    for dialect in (C99, prefixed):
        assert kernel_text(Kernel(name, (), ()), dialect).name == dialect.function(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("digits", "digits"),
        ('a"; b */', "a_b"),
        ("9lives", "model_9lives"),
        ("🙂", "model"),
        ("__x__", "x"),
    ],
)
def test_a_model_of_any_name_has_an_identifier(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_the_same_program_gives_the_same_bytes() -> None:
    assert BACKEND.emit(chain().program, TARGET) == BACKEND.emit(chain().program, TARGET)


def test_no_text_of_a_user_reaches_the_code() -> None:
    """Names of arrays are in prototypes, as identifiers; the code has not even those."""
    for name, text in BACKEND.emit(hostile().program, TARGET).items():
        code = text.replace("/*", "\0/*").split("\0")
        outside = "".join(
            part.partition("*/")[2] if part.startswith("/*") else part for part in code
        )
        assert "system(" not in outside and "<none>" not in outside and text.isascii()
        assert "system" not in outside or name.endswith(".h")


@needs_compiler
def test_weights_too_large_to_embed_are_a_pointer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlac_c.EMBED", 16)
    case: Case = constants()
    (header,) = (t for n, t in BACKEND.emit(case.program, TARGET).items() if n.endswith(".h"))
    assert "const void *weights, size_t weight_bytes" in header
    assert [o for o in check(case, BACKEND, TARGET) if o.status != "passed"] == []


@needs_compiler
def test_a_missing_pointer_is_a_status(tmp_path: Path) -> None:
    sources: Mapping[str, str] = BACKEND.emit(chain().program, TARGET)
    entry = ctypes.CDLL(str(BACKEND.build(sources, tmp_path))).conformance_run
    assert "#define CONFORMANCE_ARENA_BYTES 128" in sources["conformance.h"]
    assert "CONFORMANCE_NULL_POINTER = 1," in sources["conformance.h"]
    assert entry(None, None, None, None) == 1


def test_without_a_compiler_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UnsupportedError, match="needs a C compiler") as error:
        BACKEND.build(BACKEND.emit(chain().program, TARGET), tmp_path)
    assert error.value.exit_code == 3
