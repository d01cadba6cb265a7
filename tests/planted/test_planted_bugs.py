"""A wrong rule, a wrong spelling and a wrong lifetime, planted in the compiler itself, are each
found by name.

The finders are those that the project has anyway: `xlac bisect`, `xlac backend test` and the
verifier of programs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from xlac.cli import status
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac.memory.lifetimes import Lifetimes
from xlac.passes import simplify
from xlac.passes.rewrite.pattern import x, y
from xlac_c import CBackend
from xlac_cpu import CpuBackend
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.ctext import C99
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.verify import VerifyError
from xlac_sdk.programs.program import Slot
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[2] / "specs"


def test_bisect_names_a_planted_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "difference.yaml"
    spec.write_text(
        "xlac: 1\ninputs: {a: 'f32[6]', b: 'f32[6]'}\noutputs: {c: exp(a - b) * 1.0 + tanh(a)}\n",
        "utf-8",
    )
    assert status(["bisect", str(spec)]) == 0
    # not `y - x`, to which it would apply again, and so twice
    monkeypatch.setattr(simplify, "RULES", (*simplify.RULES, (x - y >> y + x).on({DType.F32})))
    assert status(["bisect", str(spec)]) == 1
    said = capsys.readouterr().out
    assert "(x - y) >> (y + x)" in said and "simplify" in said
    assert status(["run", str(spec), "--target", "reference"]) == 0, (
        "the fault is one of results, not of compiling"
    )


@pytest.mark.skipif(which("cc") is None, reason="the c target needs a C compiler")
def test_backend_test_names_a_planted_spelling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(C99, floats={**C99.floats, Primitive.SUB: "({1} - {0})"})
    monkeypatch.setattr(CBackend, "dialect", wrong)
    assert status(["backend", "test", "c", "--kernels", "--only", "sub"]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("✗")]
    assert failed and all("sub" in line for line in failed)


def test_the_verifier_names_a_planted_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values die one step after they are made, as if nobody read them later."""
    model = load(SPECS / "bert_layer.yaml", dims={"batch": 1, "sequence": 8})
    target = CpuBackend().target(Request())
    verify_program(lower(model, target).program)
    use, seen = Lifetimes.use, set[tuple[int, Slot]]()

    def once(self: Lifetimes, slot: Slot) -> None:
        if (id(self), slot) not in seen:
            use(self, slot)
        seen.add((id(self), slot))

    monkeypatch.setattr(Lifetimes, "use", once)
    with pytest.raises(
        VerifyError, match=r"slots '\w+' \(.*\) and '\w+' \(.*\) share memory while both are live"
    ):
        verify_program(lower(model, target).program)
